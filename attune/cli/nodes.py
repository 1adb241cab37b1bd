"""`attune nodes`: find the slow node before a campaign does."""

from __future__ import annotations

import typer

from attune.cli.options import AsJson, Count, GpuName, LauncherName, LauncherOption, Yes, pairs


def nodes(
    gpu: GpuName,
    count: Count,
    launcher: LauncherName = "auto",
    launcher_option: LauncherOption = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Check every node for a minute.

    Measures matrix rate, memory and all-reduce on all nodes at once, and names those that fall
    behind the median by more than 15 %; exits with 1 where there are any.

    Example: attune nodes -g h200 -n 128 --launcher slurm
    """
    from attune.cli.consent import ask
    from attune.cli.output import show
    from attune.report.nodes import draw_nodes
    from attune.verbs.nodes import find_slow_nodes

    if not yes and gpu != "cpu":
        ask(f"Check {count} {gpu} for a minute?")
    report = find_slow_nodes(gpu, count, launcher=launcher, options=pairs(launcher_option))
    show(report, draw_nodes, as_json)
    if report.slow:
        raise typer.Exit(1)
