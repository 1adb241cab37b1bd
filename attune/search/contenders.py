"""Which layouts may still win, the fastest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from attune.experiment.events import Finished, Verified
from attune.search.progress import RETRIES, Standing, machine_fault


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A layout that completed a run as candidate or reference."""

    first: Finished
    second: Finished | None
    """Its completed confirmation."""

    @property
    def arm(self) -> Finished:
        """The run to judge and to publish: the second, which nobody picked for its speed."""
        return self.second or self.first

    @property
    def step_s(self) -> float:
        """Step time to be ranked by: the mean of its runs, so that a lucky one is one of two."""
        second = self.second or self.first
        return (_step_s(self.first) + _step_s(second)) / 2


def contenders(standing: Standing) -> list[Contender]:
    """Every layout that completed within the limit, was not refused and did not fail again."""
    refused = {e.layout for e in standing.events if isinstance(e, Verified) and not e.passed}
    found: dict[str, Contender] = {}
    for run in sorted([*standing.completed("candidate"), *_reference(standing)], key=_step_s):
        seconds = [r for r in standing.runs if _confirms(r, run)]
        over = not all(map(standing.within, (run, *seconds)))
        if over or run.layout in refused or run.layout in found or _failed_again(seconds):
            continue
        second = next((r for r in seconds if r.outcome == "completed"), None)
        found[run.layout] = Contender(first=run, second=second)
    return sorted(found.values(), key=lambda contender: contender.step_s)


def _reference(standing: Standing) -> Iterator[Finished]:
    if standing.reference:
        yield standing.reference


def _confirms(run: Finished, first: Finished) -> bool:
    return run.purpose == "confirmation" and run.layout == first.layout


def _failed_again(seconds: list[Finished]) -> bool:
    """Whether a second run failed by the layout's fault, or too often by the machine's."""
    faults = sum(map(machine_fault, seconds))
    own = any(r.outcome != "completed" and not machine_fault(r) for r in seconds)
    return own or faults > RETRIES


def _step_s(run: Finished) -> float:
    return float("inf") if run.step_time_s is None else run.step_time_s
