"""Decides how a run ended, from all that its logs said."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from attune.trial.failures import CLASSES
from attune.trial.findings import Finding
from attune.trial.logs import RunLog
from attune.trial.result import Outcome, Step

Stopped = Literal["cancelled", "pruned", "timed_out"]

_KILLED = (-9, 137)
_REPORTED = {"HOST_KILL": "HOST_OOM"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """How a run ended, and the line that shows it."""

    outcome: Outcome
    log_class: str | None = None
    evidence: str = ""
    advice: str = ""
    rank: int | None = None
    phase: str | None = None
    requested_gib: float | None = None


def decide(
    log: RunLog,
    *,
    steps_asked: int,
    exit_code: int | None,
    stopped: Stopped | None = None,
    on_cpu: bool = False,
    trains: bool = True,
) -> Verdict:
    """The outcome of a run.

    The earliest primary error of all ranks decides, even where the run was then stopped at its
    time limit: peers of a failed rank often hang. Where not every line has a time, causes go
    before what a peer's failure looks like, and that before exits; echoes come last.

    Args:
        log: what all ranks logged.
        steps_asked: steps of a whole run.
        exit_code: of the whole job; minus the signal for one that a signal ended.
        stopped: why attune ended it, if it did.
        on_cpu: the host trains, so its allocators' failures are the trainer's out of memory.
        trains: losses mean something; those of a probe do not.
    """
    diverged = next((step for step in log.steps if trains and not _finite(step)), None)
    if stopped == "cancelled" or (stopped == "pruned" and diverged is None):
        return Verdict(outcome=stopped, evidence=f"stopped after {len(log.steps)} steps")
    found = _first(log.findings)
    if found is not None and found.log_class == "MISCONFIGURED":
        return _of(found, on_cpu)  # its steps are those of another run
    whole = log.done >= steps_asked
    # Where attune ended the run, exits are its own doing.
    decisive = found is not None and CLASSES[found.log_class].weight < (2 if stopped else 3)
    if found is not None and decisive and not (whole and exit_code == 0):
        return _of(_told_step(found, log), on_cpu)
    if diverged is not None:
        return _of(Finding(log_class="NAN", line=_told(diverged)), on_cpu)
    if stopped == "timed_out":
        return _timed_out(log)
    if exit_code != 0:
        log_class = "HOST_KILL" if exit_code in _KILLED else "CRASH"
        exited = Finding(log_class=log_class, line=f"exit code {exit_code}")
        return _of(exited if exit_code in _KILLED else found or exited, on_cpu)
    if not whole:
        return Verdict(
            outcome="incomplete",
            evidence=f"{log.done} of {steps_asked} steps, exit code 0 and no error",
            advice="read the end of the logs of all ranks",
        )
    return Verdict(outcome="completed")


def _first(findings: list[Finding]) -> Finding | None:
    primary = [found for found in findings if CLASSES[found.log_class].weight < 2]
    if primary and all(found.time is not None for found in primary):
        return min(primary, key=lambda found: (found.time, *_order(found)))
    return min(findings, key=_order, default=None)


def _order(found: Finding) -> tuple[int, int, float, int, int]:
    rank = -1 if found.rank is None else found.rank
    weight = CLASSES[found.log_class].weight
    return weight, found.arrival, found.time or math.inf, found.place, rank


def _of(found: Finding, on_cpu: bool) -> Verdict:
    log_class = "GPU_OOM" if on_cpu and found.on_host else found.log_class
    meaning = CLASSES[log_class]
    assert meaning.outcome is not None
    return Verdict(
        outcome=meaning.outcome,
        log_class=_REPORTED.get(log_class, log_class),
        evidence=found.line,
        advice=meaning.advice,
        rank=found.rank,
        phase=found.phase,
        requested_gib=found.requested_gib,
    )


def _told_step(found: Finding, log: RunLog) -> Finding:
    """The step that ran, where nothing says more than that training had begun."""
    if found.phase not in (None, "training") or not log.steps:
        return found
    return replace(found, phase=f"step {log.steps[-1].step + 1}")


def _finite(step: Step) -> bool:
    """A loss that is missing from a step's line is Megatron's way of logging NaN."""
    if step.loss is None or not math.isfinite(step.loss):
        return False
    return step.grad_norm is None or math.isfinite(step.grad_norm)


def _told(step: Step) -> str:
    return f"step {step.step}: loss {step.loss}, gradient norm {step.grad_norm}"


def _timed_out(log: RunLog) -> Verdict:
    if log.steps:
        seconds = log.steps[-1].seconds
        return Verdict(
            outcome="timed_out",
            log_class="HANG",
            evidence=f"{len(log.steps)} steps, the last in {seconds:.3g} s, then the time limit",
            advice="if steps were still coming, raise the time limit; else look for a hang",
        )
    return Verdict(
        outcome="timed_out",
        log_class="HANG",
        evidence="no step before the time limit, and no error",
        advice="raise the time limit if the start is slow; else look at the rendezvous",
    )
