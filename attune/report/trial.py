"""One trial as a person reads it: outcome, step time, throughput, memory per rank."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attune.report.calibration import NOTHING_LEARNT, Learnt
from attune.report.plan import Suggestion
from attune.report.words import (
    ABSENT,
    badge,
    brief,
    escaped,
    gib,
    grid,
    number,
    percent,
    say,
    say_marked,
    say_whole,
    seconds,
)
from attune.trial.result import Step, TrialResult

if TYPE_CHECKING:
    from rich.console import Console

_MOST_RANKS = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialRun:
    """A trial that ran, and what attune had predicted of it."""

    layout: str
    directory: Path
    launcher_reason: str
    result: TrialResult
    predicted: Suggestion
    """What the estimator said of it."""
    learnt: Learnt = NOTHING_LEARNT
    """What the calibration learnt from it."""

    @property
    def completed(self) -> bool:
        """Whether every step ran."""
        return self.result.outcome == "completed"


def step_line(step: Step, steps: int) -> str:
    """One step while the trial runs."""
    loss = "-" if step.loss is None else f"{step.loss:.4f}"
    return f"step {step.step + 1}/{steps}: {seconds(step.seconds)} s, loss {loss}"


def draw_trial(run: TrialRun, console: Console) -> None:
    """Outcome first; then the figures, measured beside predicted, and memory by rank."""
    result = run.result
    colour = "green" if run.completed else "red"
    outcome = result.outcome
    say_marked(
        console,
        f"[{colour}]{outcome}[/] on {escaped(result.hardware)}, launcher {result.launcher}, "
        f"{badge(result.provenance)}",
    )
    if result.launcher == "simulated":
        say(
            console,
            f"SIMULATED ({run.launcher_reason}): a virtual cluster ran it; no figure is measured",
        )
    say_whole(console, run.layout)
    if not run.completed:
        draw_failure(result, console)
    _draw_figures(run, console)
    _draw_ranks(result, console)
    if run.learnt.words:
        say(console, run.learnt.words)
    say(console, f"directory: {run.directory}")


def draw_failure(result: TrialResult, console: Console) -> None:
    """Why a run ended before its time, where, and what to do."""
    where = [f"rank {result.rank}"] if result.rank is not None else []
    where += [result.phase] if result.phase else []
    if result.requested_gib is not None:
        where.append(f"{gib(result.requested_gib)} GiB asked for")
    why = result.evidence or result.log_class or "no evidence in the logs"
    say(console, f"why: {brief(why)}")
    if where:
        say(console, f"where: {', '.join(where)}")
    if result.advice:
        say(console, f"advice: {result.advice}")


def _draw_figures(run: TrialRun, console: Console) -> None:
    result = run.result
    kind = "measured" if result.provenance != "predicted" else "simulated"
    table = grid(["figure", kind, "predicted"])
    table.add_row("step time, s", seconds(result.step_time_s), seconds(run.predicted.step_s))
    cv = result.step_time_cv_percent
    table.add_row("step-time CV", percent(cv / 100 if cv is not None else None, 2), "")
    estimated = number(run.predicted.tokens_per_s_per_gpu)
    table.add_row("tokens/s/GPU", number(result.tokens_per_s_per_gpu), estimated)
    table.add_row(
        "peak reserved, GiB", gib(result.peak_reserved_gib), gib(run.predicted.reserved_gib)
    )
    table.add_row("steps", f"{len(result.steps)}/{result.steps_asked}", "")
    table.add_row("wall time, s", seconds(result.wall_s), "")
    losses = [loss for loss in result.losses if loss is not None]
    if losses:
        table.add_row("loss, first to last", f"{losses[0]:.4f} to {losses[-1]:.4f}", "")
    console.print(table)


def _draw_ranks(result: TrialResult, console: Console) -> None:
    if not result.ranks:
        return
    table = grid(["rank", "stage", "allocated GiB", "reserved GiB", "host GiB"], left=2)
    ranks = sorted(result.ranks, key=lambda rank: (-rank.reserved_gib, rank.rank))
    for rank in sorted(ranks[:_MOST_RANKS], key=lambda rank: rank.rank):
        host = gib(rank.host_gib) if rank.host_gib else ABSENT
        device = (gib(rank.allocated_gib), gib(rank.reserved_gib))
        table.add_row(str(rank.rank), str(rank.stage), *device, host)
    console.print(table)
    if len(ranks) > _MOST_RANKS:
        say(console, f"the {_MOST_RANKS} ranks with most memory of {len(ranks)}")
