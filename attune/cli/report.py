"""`attune report`: what a campaign found."""

from __future__ import annotations

from typing import Annotated

import typer

from attune.cli.options import AsJson


def report(
    experiment: Annotated[str, typer.Argument(help="Id (`attune experiments`) or folder.")],
    as_json: AsJson = False,
) -> None:
    """Explain what a campaign found.

    The verdict, its checks and gains, every run, and what it cost.
    """
    from attune.cli.output import show
    from attune.report.campaign import draw_report
    from attune.verbs.report import write_report

    show(write_report(experiment), draw_report, as_json)
