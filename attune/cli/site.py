"""`attune site`: the leaderboard."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attune.cli.options import AsJson

app = typer.Typer(help="Build the leaderboard of recipes.", no_args_is_help=True)

_Folder = Annotated[Path, typer.Option("--output", "-o", help="Folder of the site.")]


@app.callback()
def site() -> None:
    """Build the leaderboard of recipes."""


@app.command()
def build(
    places: Annotated[
        list[Path] | None, typer.Argument(help="Recipes or folders [the shipped recipes].")
    ] = None,
    output: _Folder = Path("site"),
    as_json: AsJson = False,
) -> None:
    """Write static pages: all models, a ranked table for each model and GPU, every recipe.

    They need no server and no network. Example: attune site build recipes -o site
    """
    from attune.cli.output import show
    from attune.report.site import draw_site
    from attune.verbs.site import write_site

    show(write_site(places or (), output), draw_site, as_json)


@app.command()
def serve(
    output: _Folder = Path("site"),
    port: Annotated[int, typer.Option(help="Port on the loopback; 0 takes a free one.")] = 8000,
) -> None:
    """Serve a built site on this machine only, until Ctrl-C."""
    from attune.verbs.site import site_server

    with site_server(output, port) as server:
        typer.echo(f"http://127.0.0.1:{server.server_port}/ (Ctrl-C ends)")
        server.serve_forever()
