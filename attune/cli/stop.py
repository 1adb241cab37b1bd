"""`attune stop`: end a campaign from another shell."""

from __future__ import annotations

from typing import Annotated

import typer


def stop(
    experiment: Annotated[str, typer.Argument(help="Id (`attune experiments`) or folder.")],
    wait: Annotated[
        float, typer.Option("--wait", min=0, help="Seconds to wait for its end.")
    ] = 300.0,
) -> None:
    """End a campaign that another shell runs.

    The run in flight is cancelled and written down, as Ctrl-C there would do; `attune tune
    --resume` goes on later.

    Example: attune stop glm-4.5-h200-128-20261130-161500
    """
    from attune.verbs.watch import stop as ask

    if not ask(experiment, limit_s=wait):
        typer.echo(f"asked; it has not ended after {wait:g} s: look with attune watch {experiment}")
        raise typer.Exit(1)
    typer.echo(f"stopped; go on with: attune tune --resume {experiment}")
