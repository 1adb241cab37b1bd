"""`attune export`: a campaign's winner, or a recipe, for another program."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from attune.cli.options import LauncherOption, pairs


def export(
    source: Annotated[
        str, typer.Argument(help="Experiment (`attune experiments`), its folder, or a recipe file.")
    ],
    to: Annotated[
        Literal["recipe", "script", "sbatch", "ray", "k8s", "megatron-bridge", "env"],
        typer.Option("--to", help="What is written."),
    ] = "recipe",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write [standard output].")
    ] = None,
    launcher_option: LauncherOption = None,
    checkout: Annotated[
        str | None,
        typer.Option("--checkout", help="Folder of the framework's checkout on the nodes."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace that file.")] = False,
) -> None:
    """Write the winner as a recipe, a script, a job of a scheduler, or its variables.

    Nothing is started. Example: attune export my-experiment --to sbatch -o train.sbatch
    """
    from attune.errors import AttuneError
    from attune.report.words import visible
    from attune.verbs.export import export_text, write_text

    text = export_text(source, to, options=pairs(launcher_option), checkout=checkout)
    if output is None:
        if sys.stdout.isatty() and visible(text) != text:
            raise AttuneError("the text holds characters that a terminal obeys; give -o FILE")
        sys.stdout.write(text)
    else:
        typer.echo(f"wrote {write_text(output, text, overwrite=overwrite)}")
