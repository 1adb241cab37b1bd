"""The pipeline schedule of the arms as a timeline: a row for each stage, gaps where it waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attune.report.arms import Arm, ExperimentReport, Schedule, SchedulePass
from attune.report.chart import Chart, Figure, figure_of
from attune.report.words import percent, seconds


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A pass in the row of its arm and stage."""

    row: str
    done: SchedulePass


def schedule_chart(report: ExperimentReport) -> Chart:
    """Forward and backward passes of every stage, winner and reference."""
    arms = [(arm, arm.schedule) for arm in report.arms if arm.schedule is not None]
    drawn = [_Drawn(_row(arm, done.stage), done) for arm, s in arms for done in s.drawn]
    rows = [_row(arm, stage) for arm, s in arms for stage in range(len(s.busy_s))]
    figure = figure_of(
        [_bars("forward", drawn, False), _bars("backward", drawn, True)],
        "seconds",
        "stage",
        barmode="overlay",
        bargap=0.15,
        height=min(max(420, 140 + 22 * len(rows)), 1600),
    )
    figure["layout"]["yaxis"] |= {"categoryorder": "array", "categoryarray": rows[::-1]}
    return Chart(
        id="schedule",
        title="Pipeline schedule",
        says=f"Passes of every stage; a gap is idle time. {_extent(arms)}",
        origin="predicted",
        figure=figure,
        head=("stage", "busy, s", "idle, s", "idle share"),
        rows=tuple(_cells(arms)),
    )


def _row(arm: Arm, stage: int) -> str:
    return f"{arm.name} {stage}"


def _bars(name: str, drawn: Sequence[_Drawn], back: bool) -> Figure:
    """Bars that begin at a pass's start and are as long as it takes."""
    own = [bar for bar in drawn if bar.done.backward == back]
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": [bar.row for bar in own],
        "base": [_short(bar.done.start_s) for bar in own],
        "x": [_short(bar.done.end_s - bar.done.start_s) for bar in own],
    }


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def _extent(arms: Sequence[tuple[Arm, Schedule]]) -> str:
    """How much of a step the chart shows; the table counts all of it."""
    words = [f"{arm.name}: {part}" for arm, s in arms if (part := _part(s))]
    if not words:
        return "All microbatches of a step."
    return f"Drawn for {', '.join(words)}; the table counts all that were replayed."


def _part(schedule: Schedule) -> str:
    """What is drawn of a schedule; empty for all of it."""
    if len(schedule.drawn) < schedule.drawn_of:
        return f"the first {len(schedule.drawn):,} of {schedule.drawn_of:,} passes"
    if schedule.drawn_microbatches < schedule.microbatches:
        return f"{schedule.drawn_microbatches} of {schedule.microbatches} microbatches"
    return ""


def _cells(arms: Sequence[tuple[Arm, Schedule]]) -> Iterator[tuple[str, ...]]:
    for arm, s in arms:
        for stage, busy in enumerate(s.busy_s):
            idle = s.total_s - busy
            share = percent(idle / s.total_s if s.total_s else 0.0)
            yield _row(arm, stage), seconds(busy), seconds(idle), share
