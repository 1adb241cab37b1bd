"""`attune doctor`: what works here."""

from __future__ import annotations

from attune.cli.options import AsJson


def doctor(as_json: AsJson = False) -> None:
    """Say what works on this machine.

    What is installed, which GPUs and launchers are reachable, and what to do about the rest.
    """
    from attune.cli.output import show
    from attune.report.doctor import draw_findings
    from attune.verbs.doctor import doctor as look

    show(look(), draw_findings, as_json)
