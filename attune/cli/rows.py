"""`attune rows`: the data that trials train on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attune.cli.options import AsJson

app = typer.Typer(help="Build and inspect the rows that trials train on.", no_args_is_help=True)
File = Annotated[Path, typer.Argument(help="File of rows (parquet, its manifest beside it).")]


@app.callback()
def rows() -> None:
    """Build and inspect the rows that trials train on."""


@app.command()
def build(
    source: Annotated[str, typer.Option(help="Conversations: file, folder or hub id.")],
    tokenizer: Annotated[str, typer.Option(help="Folder or hub id of the tokenizer.")],
    loss_mask: Annotated[
        str, typer.Option(help="chatml, glm45, glm5, llama3, qwen3, or template.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="FILE.parquet to write.")],
    row_tokens: Annotated[int, typer.Option(help="Tokens of a row.")] = 8192,
    row_count: Annotated[int, typer.Option(help="Rows to build.")] = 6400,
    seed: Annotated[int, typer.Option(help="Seed of the order of conversations.")] = 42,
    column: Annotated[str, typer.Option(help="Column with the messages.")] = "messages",
    revision: Annotated[str | None, typer.Option(help="Commit of the source.")] = None,
    tokenizer_revision: Annotated[str | None, typer.Option(help="Commit of the tokenizer.")] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes that encode; the bytes stay the same.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output.")] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Give up an unfinished build of other settings.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Build rows from conversations.

    Interrupted, the same command goes on.
    """
    from rich.console import Console

    from attune.cli.output import show
    from attune.report.rows import draw_build, draw_manifest
    from attune.rows.request import BuildRequest
    from attune.verbs.rows import build_rows

    request = BuildRequest(
        source=source,
        tokenizer=tokenizer,
        loss_mask=loss_mask,
        output=output,
        row_tokens=row_tokens,
        row_count=row_count,
        seed=seed,
        column=column,
        revision=revision,
        tokenizer_revision=tokenizer_revision,
        processes=processes,
        overwrite=overwrite,
        restart=restart,
    )
    manifest = draw_build(build_rows(request), Console(stderr=True))
    show(manifest, draw_manifest, as_json)


@app.command("show")
def show_one(
    file: File,
    row: Annotated[int, typer.Option(min=0, help="Number of the row, from 0.")] = 0,
    tokenizer: Annotated[
        str | None, typer.Option(help="Folder or hub id of the tokenizer, for text.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print one row; supervised tokens are marked."""
    from attune.cli.output import show
    from attune.report.rows import draw_row
    from attune.verbs.rows import show_row

    show(show_row(file, row, tokenizer), draw_row, as_json)


@app.command()
def check(file: File, as_json: AsJson = False) -> None:
    """Check digests, shapes, masks and ids of a file of rows."""
    from attune.cli.output import show
    from attune.report.rows import draw_checked_rows
    from attune.verbs.rows import check_rows

    checked = check_rows(file)
    show(checked, draw_checked_rows, as_json)
    if not checked.passed:
        raise typer.Exit(1)


@app.command()
def convert(
    file: File,
    output: Annotated[Path, typer.Option("--output", "-o", help="FILE.idx.parquet to write.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output.")] = False,
) -> None:
    """Write rows for Megatron-Bridge.

    The file is its packed parquet; masks and boundaries of rows stay.
    """
    from attune.verbs.rows import convert_rows

    count = convert_rows(file, output, overwrite=overwrite)
    typer.echo(f"{count} rows in {output}")
