"""A node check as a person reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attune.report.words import ABSENT, gib, grid, number, say
from attune.trial.node_check import NodeReport

if TYPE_CHECKING:
    from rich.console import Console

_MOST = 32


def draw_nodes(report: NodeReport, console: Console) -> None:
    """Every node with its figures, the slow ones first; then what to leave out."""
    table = grid(["node", "TFLOP/s", "GiB", "all-reduce GB/s", "verdict"], left=1)
    ordered = sorted(report.nodes, key=lambda node: not node.faults)
    for node in ordered[:_MOST]:
        speed = ABSENT if node.node_gb_per_s is None else number(node.node_gb_per_s)
        verdict = "; ".join(node.faults) or "healthy"
        table.add_row(node.node, f"{node.tflops:.4g}", gib(node.memory_gib), speed, verdict)
    console.print(table)
    if len(ordered) > _MOST:
        say(console, f"{_MOST} of {len(ordered)} nodes")
    if report.world_gb_per_s is not None:
        say(console, f"all-reduce among all ranks: {number(report.world_gb_per_s)} GB/s, measured")
    say(console, f"took {report.seconds:.0f} s, {report.gpu_hours:.2f} GPU-hours")
    if report.slow:
        say(console, f"leave out: --launcher-option exclude={','.join(report.slow)}")
