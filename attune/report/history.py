"""A campaign as its events tell it so far: what the live display and the report draw."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from attune.experiment.events import (
    Advised,
    Attributed,
    Completed,
    Enumerated,
    Event,
    Finished,
    Interrupted,
    Judged,
    Probed,
    Progress,
    Proposed,
    ReferenceChosen,
    Started,
    Stopped,
    Verified,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """The events of one campaign, sorted by what they are about."""

    started: Started | None = None
    funnel: Enumerated | None = None
    reference: ReferenceChosen | None = None
    running: Proposed | None = None
    """The run in flight."""
    progress: Progress | None = None
    """Its latest step."""
    runs: tuple[Finished, ...] = ()
    reasons: tuple[tuple[int, str], ...] = ()
    """Why each run was proposed, by its number."""
    interrupted: tuple[Interrupted, ...] = ()
    probes: tuple[Probed, ...] = ()
    advised: tuple[Advised, ...] = ()
    judged: tuple[Judged, ...] = ()
    attributed: Attributed | None = None
    stopped: Stopped | None = None
    verified: tuple[Verified, ...] = ()
    completed: Completed | None = None

    @property
    def best(self) -> Finished | None:
        """The fastest candidate that completed, so far."""
        return next((run for run in reversed(self.runs) if run.best), None)

    @property
    def baseline(self) -> Finished | None:
        """The reference arm's completed run."""
        arms = (r for r in self.runs if r.purpose == "reference" and r.outcome == "completed")
        return next(arms, None)

    @property
    def candidates(self) -> int:
        """Candidates that ended, whatever their outcome."""
        return sum(run.purpose == "candidate" for run in self.runs)

    @property
    def gpu_hours(self) -> float:
        """GPU-hours of every run and probe so far, interrupted ones included."""
        ended = sum(run.gpu_hours for run in self.runs)
        probed = sum(probe.gpu_hours for probe in self.probes)
        return ended + probed + sum(run.gpu_hours for run in self.interrupted)

    @property
    def state(self) -> str:
        """`unfinished`, `searched` (winner not yet verified), `failed` or `done`."""
        if self.completed:
            return "failed" if self.completed.problem else "done"
        return "searched" if self.stopped else "unfinished"

    def reason(self, run: int) -> str:
        """Why run `run` was proposed; empty where the journal does not say."""
        return dict(self.reasons).get(run, "")

    def after(self, event: Event) -> History:
        """This history with one more event."""
        match event:
            case Started():
                return replace(self, started=event, completed=None, running=None)
            case Enumerated():
                return replace(self, funnel=event)
            case ReferenceChosen():
                return replace(self, reference=event)
            case Proposed():
                reasons = (*self.reasons, (event.run, event.why))
                return replace(self, running=event, progress=None, reasons=reasons)
            case Progress():
                return replace(self, progress=event)
            case Finished():
                return replace(self, running=None, progress=None, runs=(*self.runs, event))
            case Interrupted():
                both = (*self.interrupted, event)
                return replace(self, running=None, progress=None, interrupted=both)
            case Probed():
                return replace(self, probes=(*self.probes, event))
            case Advised():
                return replace(self, advised=(*self.advised, event))
            case Judged():
                return replace(self, judged=(*self.judged, event))
            case Attributed():
                return replace(self, attributed=event)
            case Stopped():
                return replace(self, stopped=event)
            case Verified():
                return replace(self, verified=(*self.verified, event))
            case Completed():
                return replace(self, completed=event, running=None)


def history_of(events: Iterable[Event]) -> History:
    """The history that `events` tell, in order."""
    history = History()
    for event in events:
        history = history.after(event)
    return history
