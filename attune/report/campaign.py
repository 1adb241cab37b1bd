"""A finished or unfinished campaign, compact: verdict first, then every run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attune.experiment.events import Completed, Finished, Interrupted
from attune.report.history import History
from attune.report.lines import check_line, checks_word, lines, simulated_notice, unproven_notice
from attune.report.words import (
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
    spent,
)

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """One experiment as a person reads it."""

    experiment: str
    history: History
    remarks: tuple[str, ...] = ()
    """What is unfinished, damaged or not understood in its files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedExperiment:
    """One line of `attune experiments`."""

    id: str
    model: str
    gpu: str
    count: int
    state: str
    runs: int
    tokens_per_s_per_gpu: float | None
    """Of the winner, else of the best so far."""
    provenance: str
    problem: str = ""
    """Why the experiment cannot be read; empty when it can."""


def draw_report(report: Report, console: Console) -> None:
    """Verdict, checks, gains, every run with predicted against measured, cost."""
    history = report.history
    notice = simulated_notice(history.started) if history.started else ""
    say(console, f"experiment {report.experiment}: {history.state}")
    for line in [*report.remarks, *([notice] if notice else [])]:
        say(console, line)
    _draw_question(history, console)
    if history.completed:
        _draw_verdict(history.completed, console)
    for verified in history.verified:
        say(console, f"checks of run {verified.run}: {checks_word(verified)}")
        for check in verified.checks:
            say(console, check_line(check))
        if unproven := unproven_notice(history.started):
            say(console, unproven)
    _draw_runs(history, console)
    for told in (*map(lines, history.advised), *map(lines, history.judged)):
        for line in told:
            say(console, line)
    if history.attributed:
        for line in lines(history.attributed):
            say(console, line)
    if history.stopped:
        say(console, f"search ended: {history.stopped.reason}")
    provenance = history.started.provenance if history.started else "measured"
    say(console, f"{spent(history.gpu_hours, provenance)}, in {len(history.runs)} runs")


def _draw_question(history: History, console: Console) -> None:
    started = history.started
    if started:
        say(console, f"{started.model} on {started.count} {started.gpu}, {started.workload}")
    if history.funnel:
        for line in lines(history.funnel):
            say(console, line)
    if history.reference:
        for line in lines(history.reference):
            say(console, line)


def _draw_verdict(completed: Completed, console: Console) -> None:
    if completed.winner is None:
        say_marked(console, f"\n[red]no winner[/]: {escaped(completed.problem)}")
        return
    say_marked(console, f"\nwinner, {badge(completed.status)}:")
    say_whole(console, completed.winner)
    table = grid(["figure", "value", "from"])
    source = badge(completed.status)
    table.add_row("tokens/s/GPU", number(completed.tokens_per_s_per_gpu), source)
    table.add_row("step time, s", seconds(completed.step_time_s), source)
    table.add_row("peak memory, GiB", gib(completed.peak_gib), source)
    table.add_row("$ per million tokens", number(completed.usd_per_million_tokens, 3), source)
    table.add_row("MFU", percent(completed.mfu), source)
    for gain in completed.gains:
        value = "no figure" if gain.percent is None else f"{gain.percent:+.1f} %"
        table.add_row(escaped(f"tokens/s/GPU against {gain.over}"), value, source)
    console.print(table)
    if completed.problem:
        say_marked(console, f"[red]not verified[/]: {escaped(completed.problem)}")


def _draw_runs(history: History, console: Console) -> None:
    names = ["run", "purpose", "outcome", "step s", "predicted", "error", "tok/s/GPU", "GiB"]
    table = grid(names, left=3)
    for run in history.runs:
        table.add_row(
            ("*" if run == history.best else " ") + str(run.run),
            run.purpose,
            run.outcome,
            seconds(run.step_time_s),
            seconds(run.predicted.step_s),
            _error(run),
            number(run.tokens_per_s_per_gpu),
            gib(run.peak_gib),
        )
    console.print(table)
    for run in history.runs:
        _draw_run(run, history, console)
    for cut in history.interrupted:
        _draw_run(cut, history, console)


def _draw_run(run: Finished | Interrupted, history: History, console: Console) -> None:
    say_whole(console, f"run {run.run}: {run.layout}")
    if reason := history.reason(run.run):
        say(console, f"  why: {reason}")
    if isinstance(run, Interrupted):
        say(console, "  interrupted")
    elif run.outcome != "completed":
        why = run.evidence or run.log_class or "no evidence"
        say(console, f"  {run.outcome.replace('_', ' ')}: {brief(why)}")
        if run.advice:
            say(console, f"  advice: {run.advice}")


def _error(run: Finished) -> str:
    if run.step_time_s is None:
        return "-"
    return f"{100 * (run.step_time_s / run.predicted.step_s - 1):+.1f} %"


def draw_experiments(experiments: Sequence[ListedExperiment], console: Console) -> None:
    """One line an experiment: state and best figure with its provenance."""
    if not experiments:
        say(console, "no experiment yet; `attune tune` makes one")
        return
    table = grid(["experiment", "what", "state", "runs", "tok/s/GPU", "from"], left=3)
    table.columns[0].no_wrap = True  # a person copies it
    for found in experiments:
        table.add_row(
            escaped(found.id),
            "-" if found.problem else escaped(f"{found.model} {found.count} {found.gpu}"),
            found.state,
            str(found.runs),
            number(found.tokens_per_s_per_gpu),
            badge(found.provenance) if found.tokens_per_s_per_gpu else "-",
        )
    console.print(table)
    for found in experiments:
        if found.problem:
            say(console, f"{found.id}: {found.problem}")
