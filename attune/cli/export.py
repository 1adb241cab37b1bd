"""`attune export`: the recipe of a campaign."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    experiment: Annotated[str, typer.Argument(help="Id (`attune experiments`) or folder.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace that file.")] = False,
) -> None:
    """Write the recipe of a campaign to a file."""
    from attune.verbs.recipe import export_recipe

    typer.echo(f"wrote {export_recipe(experiment, output, overwrite=overwrite)}")
