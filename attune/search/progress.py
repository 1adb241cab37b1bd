"""Where a campaign stands, read from its events alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from attune.experiment.events import Event, Finished, Interrupted, Probed, Proposed
from attune.trial.job import Purpose
from attune.trial.result import Outcome

RETRIES = 1
"""How often a layout is run again after a failure that is not its own."""
MACHINE_FAULTS: tuple[Outcome, ...] = ("infrastructure", "incomplete", "cancelled")
"""Outcomes that say nothing about the layout."""


@dataclass(frozen=True)
class Standing:
    """The runs so far, and what follows from them."""

    events: Sequence[Event]
    limit_gib: float = inf
    """Memory that the winner may use."""

    @property
    def runs(self) -> list[Finished]:
        """Every run that ended, in order."""
        return [e for e in self.events if isinstance(e, Finished)]

    @property
    def next_run(self) -> int:
        """Number of the next run; each number is used once."""
        return sum(isinstance(e, Proposed) for e in self.events)

    @property
    def gpu_hours(self) -> float:
        """GPU-hours of every run and probe, those cut short included."""
        spent = Finished | Interrupted | Probed
        return sum(e.gpu_hours for e in self.events if isinstance(e, spent))

    @property
    def candidates_tried(self) -> int:
        """Candidates with a verdict on the layout; faults of the machine do not count."""
        return sum(r.purpose == "candidate" and not machine_fault(r) for r in self.runs)

    def completed(self, purpose: Purpose) -> list[Finished]:
        """Completed runs of one purpose, the fastest first."""
        runs = [r for r in self.runs if r.purpose == purpose and r.outcome == "completed"]
        return sorted(runs, key=lambda r: r.step_time_s or float("inf"))

    @property
    def reference(self) -> Finished | None:
        """The reference arm's completed run."""
        return next(iter(self.completed("reference")), None)

    @property
    def best(self) -> Finished | None:
        """The fastest completed candidate or reference within the memory that may be used."""
        arms = filter(self.within, self.completed("candidate") + self.completed("reference"))
        return min(arms, key=lambda r: r.step_time_s or float("inf"), default=None)

    def within(self, run: Finished) -> bool:
        """Whether the run needed no more memory than the winner may use."""
        return (run.peak_gib or 0.0) <= self.limit_gib

    def tokens_per_s_per_gpu(self, layout: str) -> float | None:
        """Rate at the mean step time of every completed run of `layout`."""
        runs = [r for r in self.runs if r.layout == layout and r.outcome == "completed"]
        # Rate times step time is the tokens of a GPU, the same for every run.
        pairs = [(r.tokens_per_s_per_gpu, r.step_time_s) for r in runs]
        known = [(rate, step) for rate, step in pairs if rate and step]
        return (
            sum(rate * step for rate, step in known) / sum(s for _, s in known) if known else None
        )

    def faults(self, layout: str, purpose: Purpose) -> int:
        """Runs of `layout` that ended by a fault of the machine."""
        return sum(
            r.layout == layout and r.purpose == purpose and machine_fault(r) for r in self.runs
        )

    def in_flight(self) -> Proposed | None:
        """The run that was proposed last and never ended."""
        ended = {e.run for e in self.events if isinstance(e, Finished | Interrupted)}
        open_runs = [e for e in self.events if isinstance(e, Proposed) and e.run not in ended]
        return open_runs[-1] if open_runs else None


def machine_fault(run: Finished) -> bool:
    """Whether the run ended by a fault that is not the layout's."""
    return run.outcome in MACHINE_FAULTS


def last(events: Iterable[Event], kind: type) -> Event | None:
    """The last event of `kind`, or None."""
    found = None
    for event in events:
        if isinstance(event, kind):
            found = event
    return found
