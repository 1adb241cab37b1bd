"""When the search for candidates ends, and why."""

from __future__ import annotations

from attune.search.progress import machine_fault
from attune.search.runs import Runs

FEWEST_TRIALS = 3
"""Candidates that must have completed before a small expected gain ends the search."""
MOST_FAULTS = 3
"""Faults of the machine in a row that end the search."""


def reason_to_stop(runs: Runs, row: int, gain: float) -> str:
    """Why no further candidate is tried; empty while the search goes on.

    Args:
        runs: the campaign's runs.
        row: the candidate that would be next; -1 where none is left.
        gain: expected gain of the best further trial, as a fraction.
    """
    inputs, standing = runs.inputs, runs.standing
    if standing.candidates_tried >= inputs.trials:
        return f"{inputs.trials} trials done"
    if row < 0:
        return "every candidate has been tried"
    faults = [machine_fault(run) for run in standing.runs[-MOST_FAULTS:]]
    if len(faults) == MOST_FAULTS and all(faults):
        return f"{MOST_FAULTS} faults of the machine in a row: {standing.runs[-1].evidence}"
    if len(standing.completed("candidate")) >= FEWEST_TRIALS and gain < inputs.min_gain:
        return f"another trial is expected to gain {gain:.2%}, less than --min-gain"
    return _over_budget(runs, row)


def _over_budget(runs: Runs, row: int) -> str:
    """Whether the budget no longer holds a trial of `row` and the winner's second run."""
    best, left = runs.standing.best, runs.hours_left()
    needed = runs.expected_hours(row) + (best.gpu_hours if best else 0.0)
    if needed <= left:
        return ""
    return (
        f"{left:.2f} GPU-hours are left and the next trial with the "
        f"winner's second run needs about {needed:.2f}"
    )
