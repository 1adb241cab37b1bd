"""What a campaign would spend, as a person reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from attune.report.words import duration, say, say_whole

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True, slots=True)
class Spending:
    """The cost of a campaign. Provenance: predicted."""

    runs: int
    """Reference arm, trials and confirmation."""
    nodes: int
    per_node: int
    launcher: str
    run_s: float
    """Wall time of one run, start-up included."""
    hours: float
    """Wall time of all runs, one after another; waiting in a queue comes on top."""
    gpu_hours: float
    limit_gpu_hours: float | None
    """What the budget allows; None without one."""
    usd: float
    command: str
    """What each node of the first trial runs."""


def draw_spending(spending: Spending, console: Console) -> None:
    """Runs, nodes, time and money; then the first command."""
    s = spending
    say(
        console,
        f"would run: a reference, {s.runs - 2} trials at most and a confirmation, each on "
        f"{s.nodes} nodes of {s.per_node} GPUs by launcher {s.launcher}",
    )
    say(
        console,
        f"would take about {duration(s.run_s)} a run, {s.hours:.1f} h in all, {s.gpu_hours:.0f} "
        f"GPU-hours, ${s.usd:,.0f} (predicted; queues come on top)",
    )
    if s.limit_gpu_hours is not None:
        say(console, f"hard limit: {s.limit_gpu_hours:g} GPU-hours")
    say(console, "command of the first trial, on every node:")
    for line in s.command.rstrip().splitlines():
        say_whole(console, f"  {line}")
