"""A campaign drawn while it runs: a live table in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from attune.experiment.events import Event, Finished
from attune.report.history import History
from attune.report.lines import against, lines, next_steps, simulated_notice, unproven_notice
from attune.report.words import badge, duration, escaped, gib, grid, number, say, say_whole, seconds

if TYPE_CHECKING:
    from rich.console import Console

_LAST_RUNS = 6


def draw_events(
    events: Iterable[Event], console: Console, before: History | None = None
) -> History:
    """Draws every event as it comes, and gives back the whole history.

    Args:
        events: what the campaign does.
        console: where it is drawn.
        before: what happened before this process, when a campaign goes on.
    """
    history = before or History()
    draw = _live if console.is_terminal and not console.is_dumb_terminal else _plain
    for latest in draw(events, console, history):
        history = latest
    if history.started and history.completed:
        say_whole(console, next_steps(history.started.experiment))
    if history.started and (notice := simulated_notice(history.started)):
        say(console, notice)
    return history


def _plain(events: Iterable[Event], console: Console, history: History) -> Iterator[History]:
    for event in events:
        history = history.after(event)
        _tell(event, history, console)
        yield history


def _tell(event: Event, history: History, console: Console) -> None:
    for line in lines(event):
        say_whole(console, line)
    if event.kind == "verified" and (notice := unproven_notice(history.started)):
        say_whole(console, notice)


def _live(events: Iterable[Event], console: Console, history: History) -> Iterator[History]:
    from rich.live import Live

    began, runs = time.monotonic(), len(history.runs)
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        for event in events:
            history = history.after(event)
            if event.kind not in ("progress", "proposed"):
                _tell(event, history, console)
            live.update(picture(history, time.monotonic() - began, runs))
            yield history


def picture(history: History, elapsed_s: float, runs_before: int = 0) -> Any:
    """What the live display shows: the run in flight, the last runs, best, budget, time left.

    Args:
        history: all events so far.
        elapsed_s: wall time of this process.
        runs_before: runs that ended in an earlier process.
    """
    from rich.console import Group
    from rich.text import Text

    parts: list[Any] = [Text.from_markup(_running(history))]
    if history.runs:
        parts.append(_last_runs(history))
    parts.append(Text.from_markup(_best(history)))
    parts.append(Text(_budget(history, elapsed_s, runs_before)))
    return Group(*parts)


def _running(history: History) -> str:
    running, progress = history.running, history.progress
    if not running:
        return "between runs"
    step = f"step {progress.step + 1}/{progress.steps}" if progress else "starting"
    now = f", {seconds(progress.seconds)} s a step" if progress else ""
    return (
        f"run {running.run} {running.purpose} [bold]{step}[/]{now} "
        f"({badge('predicted')} {seconds(running.predicted.step_s)} s)\n"
        f"  {escaped(running.layout)}\n  why: {escaped(running.why)}"
    )


def _last_runs(history: History) -> Any:
    table = grid(["run", "outcome", "layout", "step s", "predicted", "tok/s/GPU", "GiB"], left=3)
    for run in history.runs[-_LAST_RUNS:]:
        table.add_row(
            ("* " if run == history.best else "  ") + str(run.run),
            run.outcome,
            escaped(run.layout),
            seconds(run.step_time_s),
            seconds(run.predicted.step_s),
            number(run.tokens_per_s_per_gpu),
            gib(run.peak_gib),
        )
    return table


def _best(history: History) -> str:
    best = history.best
    if not best:
        return "best so far: none yet"
    words = f"best so far: run {best.run}, {number(best.tokens_per_s_per_gpu)} tokens/s/GPU"
    gain = _gain(best, history.baseline)
    return f"{words} {badge(best.provenance)}{gain}; {against(best)}"


def _gain(best: Finished, baseline: Finished | None) -> str:
    if not baseline or not baseline.tokens_per_s_per_gpu or not best.tokens_per_s_per_gpu:
        return ""
    gain = best.tokens_per_s_per_gpu / baseline.tokens_per_s_per_gpu - 1
    return f", {100 * gain:+.1f} % over the reference"


def _budget(history: History, elapsed_s: float, runs_before: int) -> str:
    started = history.started
    if not started:
        return "starting"
    words = f"budget: {history.candidates}/{started.trials} trials, {history.gpu_hours:.1f}"
    words += f"/{started.gpu_hours:g}" if started.gpu_hours else ""
    words += " virtual GPU-hours" if started.provenance == "predicted" else " GPU-hours"
    runs = len(history.runs) - runs_before
    if runs > 0:
        left = max(started.trials - history.candidates, 0) * elapsed_s / runs
        words += f"; about {duration(left)} left at most"
    return words
