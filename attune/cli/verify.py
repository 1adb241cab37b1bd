"""`attune verify`: whether two layouts train the same model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attune.cli.options import AsJson, Count, GpuName, ModelName, PrecisionName
from attune.errors import AttuneError

app = typer.Typer(help="Prove that two layouts train the same model.", no_args_is_help=True)


@app.callback()
def verify() -> None:
    """Prove that two layouts train the same model."""


@app.command()
def config(
    candidate: Annotated[str, typer.Argument(help="A recipe, a script, or a command line.")],
    reference: Annotated[str, typer.Argument(help="The same of the reference arm.")],
    as_json: AsJson = False,
) -> None:
    """Compare two configurations flag by flag; nothing is run.

    Layout and memory may differ, kernel choices are listed, precision asks for a component test;
    hyper-parameters, model and data must agree, and so must a flag that attune does not know.
    """
    from attune.cli.output import show
    from attune.report.verify import draw_checked
    from attune.verbs.verify import compare_configurations

    checked = compare_configurations(candidate, reference)
    show(checked, draw_checked, as_json)
    if not checked.passed:
        raise typer.Exit(1)


@app.command()
def components(
    model: ModelName,
    gpu: GpuName,
    count: Count = 1,
    layout: Annotated[
        str | None, typer.Option("--layout", "-l", help="Only the tests that this layout needs.")
    ] = None,
    precision: PrecisionName = None,
    as_json: AsJson = False,
) -> None:
    """Test parts of the step alone, with a knob on and off, at one layer's shape.

    Each first proves that its variant ran; what needs CUDA has not run without it.
    """
    from attune.cli.output import show
    from attune.report.verify import draw_checked
    from attune.verbs.explain import read_layout
    from attune.verbs.target import find_target
    from attune.verbs.verify import check_components

    target = find_target(model, gpu, count, changes={"precision": precision})
    checked = check_components(target, read_layout(layout) if layout else None)
    show(checked, draw_checked, as_json)
    if not checked.passed:
        raise typer.Exit(1)


@app.command()
def recipe(
    file: Annotated[Path, typer.Argument(help="The recipe.")],
    against: Annotated[
        Path | None, typer.Option("--against", help="Recipe of the reference arm.")
    ] = None,
    parity: Annotated[
        bool, typer.Option("--parity/--no-parity", help="Compare gradients tensor by tensor.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Verify a recipe against a reference recipe, and run both arms where this machine can."""
    from attune.cli.output import show
    from attune.report.verify import draw_checked
    from attune.verbs.verify import verify_against

    if against is None:
        raise AttuneError(
            f"{file} has no reference to be verified against; give --against with the recipe of "
            "the trusted layout"
        )
    checked = verify_against(file, against, parity=parity)
    show(checked, draw_checked, as_json)
    if checked.verification.provenance != "verified":
        raise typer.Exit(1)
