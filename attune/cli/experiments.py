"""`attune experiments`: every campaign of this folder."""

from __future__ import annotations

from attune.cli.options import AsJson


def experiments(as_json: AsJson = False) -> None:
    """List the campaigns of this folder."""
    from attune.cli.output import show
    from attune.report.campaign import draw_experiments
    from attune.verbs.report import find_experiments

    show(find_experiments(), draw_experiments, as_json)
