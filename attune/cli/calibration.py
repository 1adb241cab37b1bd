"""`attune calibration`: what measured runs taught the estimator."""

from __future__ import annotations

from typing import Annotated

import typer

from attune.cli.options import AsJson, CalibrationFile, Yes


def calibration(
    gpu: Annotated[str | None, typer.Option("--gpu", "-g", help="Only of this GPU type.")] = None,
    framework: Annotated[str | None, typer.Option(help="Only of this framework.")] = None,
    file: CalibrationFile = None,
    reset: Annotated[bool, typer.Option("--reset", help="Forget what would be listed.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """List what measured trials and probes taught the estimator.

    Each multiplier of the estimates, before (prior) and after (posterior) the runs, for every
    kind of node and framework.

    Example: attune calibration -g h200
    """
    from attune.cli.consent import ask
    from attune.cli.output import console, show
    from attune.report.calibration import draw_calibrations
    from attune.report.words import say
    from attune.verbs.calibration import forget_calibrations, show_calibrations

    if not reset:
        found = show_calibrations(gpu=gpu, framework=framework, file=file)
        show(found, draw_calibrations, as_json)
        return
    if not yes:
        ask("Forget the calibrations?")
    number = forget_calibrations(gpu=gpu, framework=framework, file=file)
    if as_json:
        show({"forgotten": number}, lambda *_: None, True)
    else:
        say(console(), f"forgotten: {number}")
