"""`attune diagnose`: what ended a run, from its logs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attune.cli.options import AsJson


def diagnose(
    logs: Annotated[list[Path], typer.Argument(help="Log files of all ranks, or their folder.")],
    framework: Annotated[
        str | None,
        typer.Option("--framework", "-f", help="Whose logs they are [all that attune knows]."),
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, help="Steps of a whole run.")
    ] = None,
    exit_code: Annotated[
        int | None, typer.Option("--exit-code", help="Of the job, where it is known.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what ended a run, from its logs.

    Works on any run of Megatron, started by anything. Names the class, rank, phase and line of the
    first failure, and what to do; exits with 1 where there is one.

    Example: attune diagnose slurm-4711.out logs/
    """
    from attune.cli.output import show
    from attune.report.diagnosis import draw_diagnosis
    from attune.verbs.diagnose import diagnose as find

    diagnosis = find(logs, framework=framework, steps=steps, exit_code=exit_code)
    if as_json:
        show(diagnosis.as_data(), lambda *_: None, as_json=True)
    else:
        show(diagnosis, draw_diagnosis, as_json=False)
    if diagnosis.failed:
        raise typer.Exit(1)
