"""`attune recipe`: recipe files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attune.cli.options import AsJson

app = typer.Typer(help="Check a recipe file.", no_args_is_help=True)


@app.callback()
def recipe() -> None:
    """Check a recipe file."""


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="The recipe.")], as_json: AsJson = False
) -> None:
    """Check schema and arithmetic of a recipe.

    Each wrong field is named with its reason. The recipe may be ours or somebody else's.
    """
    from attune.cli.output import show
    from attune.report.recipe import draw_checked_recipe
    from attune.verbs.recipe import verify_recipe

    checked = verify_recipe(file)
    show(checked, draw_checked_recipe, as_json)
    if not checked.passed:
        raise typer.Exit(1)
