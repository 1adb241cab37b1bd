"""`attune watch`: follow a campaign from another shell."""

from __future__ import annotations

from typing import Annotated

import typer


def watch(
    experiment: Annotated[str, typer.Argument(help="Id (`attune experiments`) or folder.")],
) -> None:
    """Follow a campaign that another shell runs.

    Shows what it has done and what it does, until it ends. Ctrl-C ends the watching alone.

    Example: attune watch glm-4.5-h200-128-20261130-161500
    """
    from attune.cli.output import console
    from attune.report.live import draw_events
    from attune.verbs.watch import watch as follow

    history = draw_events(follow(experiment), console())
    if history.state != "done":
        typer.echo(f"no process runs it any more; go on with: attune tune --resume {experiment}")
        raise typer.Exit(1)
