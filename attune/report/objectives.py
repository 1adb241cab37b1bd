"""What campaigns say beside their winner: other counts, memory headroom, a larger cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from attune.report.words import badge, gib, grid, number, percent, say, say_marked, seconds

if TYPE_CHECKING:
    from rich.console import Console

UNITS = {
    "throughput": "tokens/s/GPU",
    "cost": "$ per million tokens",
    "time-to-tokens": "hours per billion tokens",
}
"""What each objective counts in."""


@dataclass(frozen=True, kw_only=True)
class CountRow:
    """What one GPU count came to."""

    count: int
    experiment: str
    layout: str | None
    """The winner; None where there is none."""
    tokens_per_s_per_gpu: float | None
    usd_per_million_tokens: float | None
    hours_per_billion_tokens: float | None
    peak_gib: float | None
    provenance: str
    front: bool
    """Whether no other count beats it in both tokens/s/GPU and tokens/s."""
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Winners on several GPU counts, and the one that the objective prefers."""

    objective: str
    rows: tuple[CountRow, ...]
    best: int | None
    """Count of the best row; None where none has a winner."""


@dataclass(frozen=True, kw_only=True)
class FrontPoint:
    """A run that none beats in both throughput and memory headroom."""

    run: int
    layout: str
    tokens_per_s_per_gpu: float
    peak_gib: float
    headroom: float
    """Share of the GPU's memory left."""
    provenance: str


@dataclass(frozen=True, kw_only=True)
class Projection:
    """The winner on the cluster that it is meant for. Provenance: predicted."""

    layout: str
    measured_on: int
    count: int
    step_s: float
    low_s: float
    high_s: float
    """80 % interval."""
    tokens_per_s_per_gpu: float
    peak_gib: float
    limit_gib: float
    p_fits: float
    problem: str = ""


def draw_comparison(comparison: Comparison, console: Console) -> None:
    """A table of counts; `*` is best by the objective, `+` the others that nothing beats."""
    unit = UNITS[comparison.objective]
    say(console, f"\nGPU counts compared by {comparison.objective} ({unit})")
    columns = ("", "GPUs", "winner", "provenance", "tokens/s/GPU", "$/M tokens", "h/B tokens")
    table = grid((*columns, "peak GiB"), left=4)
    for row in comparison.rows:
        mark = "*" if row.count == comparison.best else "+" if row.front else ""
        table.add_row(
            mark,
            str(row.count),
            row.layout or row.problem,
            badge(row.provenance) if row.layout else "",
            number(row.tokens_per_s_per_gpu, 1),
            number(row.usd_per_million_tokens, 3),
            number(row.hours_per_billion_tokens, 2),
            gib(row.peak_gib),
        )
    console.print(table)
    say(console, "* best by the objective; + beaten by none in both tokens/s/GPU and tokens/s")


def draw_front(points: tuple[FrontPoint, ...], console: Console) -> None:
    """A table of throughput against memory headroom; nothing where one layout has both."""
    if len(points) < 2:
        return
    say(console, "\nThroughput against memory: layouts that none beats in both")
    table = grid(("run", "layout", "provenance", "tokens/s/GPU", "peak GiB", "headroom"), left=3)
    for point in points:
        table.add_row(
            str(point.run),
            point.layout,
            badge(point.provenance),
            number(point.tokens_per_s_per_gpu, 1),
            gib(point.peak_gib),
            percent(point.headroom),
        )
    console.print(table)


def draw_projection(projection: Projection, console: Console) -> None:
    """The projected figures in words."""
    p = projection
    say_marked(
        console,
        f"\non {p.count} GPUs ({badge('predicted')} from the run on {p.measured_on}): step "
        f"{seconds(p.step_s)} s, 80 % interval {seconds(p.low_s)} to {seconds(p.high_s)} s; "
        f"{number(p.tokens_per_s_per_gpu, 1)} tokens/s/GPU; peak {gib(p.peak_gib)} of "
        f"{gib(p.limit_gib)} GiB, P(fits) {percent(p.p_fits, 0)}",
    )
    if p.problem:
        say(console, f"the layout cannot run there: {p.problem}")
