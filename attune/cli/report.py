"""`attune report`: what a campaign found."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attune.cli.options import AsJson


def report(
    experiment: Annotated[str, typer.Argument(help="Id (`attune experiments`) or folder.")],
    html: Annotated[
        bool, typer.Option("--html", help="Write pages: index.html, report.md, trials.csv.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder of the pages [reports/<id>]; means --html."),
    ] = None,
    single_file: Annotated[
        bool, typer.Option("--single-file", help="One page with all inside (5 MB); means --html.")
    ] = False,
    open_page: Annotated[
        bool, typer.Option("--open", help="Open the page in your browser; means --html.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Explain what a campaign found.

    The verdict, its checks and gains, every run, and what it cost. With --html as pages with
    charts, which need no server and no network.

    Example: attune report glm-4.5-h200-128 --html
    """
    from attune.cli.output import show
    from attune.report.campaign import draw_report
    from attune.verbs.report import write_report

    if html or output or single_file or open_page:
        from attune.verbs.report_pages import write_report_pages

        page = write_report_pages(experiment, output, single_file=single_file)
        typer.echo(page)
        if open_page:
            typer.launch(str(page))
        return
    show(write_report(experiment), draw_report, as_json)
