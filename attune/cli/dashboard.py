"""`attune dashboard`: a campaign's study in optuna-dashboard."""

from __future__ import annotations

from typing import Annotated

import typer


def dashboard(
    experiment: Annotated[str, typer.Argument(help="Id (`attune experiments`) or folder.")],
    port: Annotated[int, typer.Option(help="Port on the loopback; 0 takes a free one.")] = 8080,
    open_page: Annotated[bool, typer.Option("--open", help="Open it in your browser.")] = False,
) -> None:
    """Look at a campaign in optuna-dashboard, on this machine only, until Ctrl-C.

    It shows a copy of the study as it stands now; nothing in it changes the experiment.
    """
    from attune.verbs.dashboard import dashboard_server

    with dashboard_server(experiment, port) as server:
        place = f"http://127.0.0.1:{server.server_port}/dashboard/"
        typer.echo(f"{place} (Ctrl-C ends)")
        if open_page:
            typer.launch(place)
        server.serve_forever()
