"""`attune models`: what attune can train."""

from __future__ import annotations

from typing import Annotated

import typer

from attune.cli.options import AsJson

app = typer.Typer(help="List the models, show one, or add one.", invoke_without_command=True)


@app.callback()
def models(context: typer.Context, as_json: AsJson = False) -> None:
    """List the models, show one, or add one."""
    if context.invoked_subcommand is None:
        from attune.cli.output import show as show_result
        from attune.report.catalogue import draw_models
        from attune.verbs.catalogue import list_models

        show_result(list_models(), draw_models, as_json)


@app.command()
def show(
    name: Annotated[
        str, typer.Argument(help="Name, YAML file, config.json, its folder or hub id.")
    ],
    as_json: AsJson = False,
) -> None:
    """Print one model: architecture and parameter counts, and how its config was read."""
    from attune.cli.output import show as show_result
    from attune.errors import AttuneError
    from attune.report.model import RefusedModel, draw_model
    from attune.verbs.catalogue import show_model

    shown = show_model(name)
    if not isinstance(shown, RefusedModel):
        show_result(shown, draw_model, as_json)
        return
    if as_json:
        show_result(shown, lambda *_: None, as_json)
    raise AttuneError(shown.error)


@app.command()
def add(
    path: Annotated[str, typer.Argument(help="config.json, its folder, or hub id in the cache.")],
    identifier: Annotated[str | None, typer.Option("--id", help="Name of the model.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Over a file that is there.")] = False,
) -> None:
    """Write a catalogue file, models/ID.yaml, from a Hugging Face config."""
    from attune.verbs.catalogue import add_model

    file = add_model(path, identifier, replace=replace)
    typer.echo(f"wrote {file}; use it: --model {file.stem}")
