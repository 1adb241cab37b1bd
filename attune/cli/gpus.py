"""`attune gpus`: what attune can train on."""

from __future__ import annotations

from attune.cli.options import AsJson


def gpus(as_json: AsJson = False) -> None:
    """List the GPUs of the catalogue."""
    from attune.cli.output import show
    from attune.report.catalogue import draw_gpus
    from attune.verbs.catalogue import list_gpus

    show(list_gpus(), draw_gpus, as_json)
