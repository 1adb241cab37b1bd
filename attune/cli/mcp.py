"""`attune mcp`: the tools of a campaign for an agent."""

from __future__ import annotations

from typing import Annotated

import typer

from attune.cli.options import LauncherOption, VirtualName, pairs


def mcp(
    launcher: Annotated[
        str, typer.Option("--launcher", help="What starts every run; an agent cannot change it.")
    ] = "simulated",
    launcher_option: LauncherOption = None,
    max_gpu_hours: Annotated[
        float | None,
        typer.Option(
            "--max-gpu-hours", help="GPU-hours of all that agents ever start in this folder."
        ),
    ] = None,
    virtual: VirtualName = "near",
    worker_option: Annotated[list[str] | None, typer.Option(hidden=True)] = None,
) -> None:
    """Serve an agent over the Model Context Protocol (stdio).

    Example: attune mcp --launcher local --max-gpu-hours 20
    """
    from attune.agent.limits import Limits
    from attune.agent.server import serve

    serve(
        Limits(
            launcher=launcher,
            launcher_options=pairs(launcher_option),
            max_gpu_hours=max_gpu_hours,
            virtual=virtual,
            worker_options=pairs(worker_option),
        )
    )
