"""`attune recipe`: recipe files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attune.cli.options import AsJson

app = typer.Typer(help="Work with recipe files.", no_args_is_help=True)


@app.callback()
def recipe() -> None:
    """Work with recipe files."""


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="The recipe.")], as_json: AsJson = False
) -> None:
    """Check schema and arithmetic of a recipe; each wrong field is named with its reason."""
    from attune.cli.output import show
    from attune.report.recipe import draw_checked_recipe
    from attune.verbs.recipe import verify_recipe

    checked = verify_recipe(file)
    show(checked, draw_checked_recipe, as_json)
    if not checked.passed:
        raise typer.Exit(1)
