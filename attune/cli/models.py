"""`attune models`: what attune can train."""

from __future__ import annotations

from typing import Annotated

import typer

from attune.cli.options import AsJson

app = typer.Typer(help="List the models, or show one.", invoke_without_command=True)


@app.callback()
def models(context: typer.Context, as_json: AsJson = False) -> None:
    """List the models, or show one."""
    if context.invoked_subcommand is None:
        from attune.cli.output import show as show_result
        from attune.report.catalogue import draw_models
        from attune.verbs.catalogue import list_models

        show_result(list_models(), draw_models, as_json)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Name, or YAML file.")], as_json: AsJson = False
) -> None:
    """Print one model: architecture and parameter counts."""
    from attune.cli.output import show as show_result
    from attune.report.catalogue import draw_model
    from attune.verbs.catalogue import show_model

    show_result(show_model(name), draw_model, as_json)
