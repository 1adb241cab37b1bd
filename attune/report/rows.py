"""Draws builds, checks and single rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attune.report.words import percent, say, say_whole, visible
from attune.rows.build import BuildProgress
from attune.rows.check import RowsCheck
from attune.rows.manifest import Manifest
from attune.rows.show import ShownRow, Stretch

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_SUPERVISED = "bold green"
_LEFT_OUT = "dim"
_MARKS = ("«", "»")
"""Around supervised text where there are no colours."""


def draw_build(events: Iterator[BuildProgress | Manifest], console: Console) -> Manifest:
    """Draws a build as it goes, and gives the manifest at its end."""
    from rich.progress import Progress, TaskID

    manifest = None
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        tasks: dict[str, TaskID] = {}
        for event in events:
            if isinstance(event, Manifest):
                manifest = event
                continue
            if event.phase not in tasks:
                tasks[event.phase] = bar.add_task(event.phase, total=event.total)
            bar.update(tasks[event.phase], completed=event.done, total=event.total)
    assert manifest is not None, "a build yields its manifest or raises"
    return manifest


def draw_manifest(manifest: Manifest, console: Console) -> None:
    """What is in a file of rows."""
    tokenizer, source = manifest.tokenizer, manifest.source
    say_whole(console, f"rows_sha256     {manifest.rows_sha256}")
    say_whole(console, f"parquet_sha256  {manifest.parquet_sha256}")
    say(
        console,
        f"{manifest.row_count:,} rows of {manifest.row_tokens:,} tokens, "
        f"{percent(manifest.supervised_ratio)} supervised, {manifest.parquet_bytes:,} bytes",
    )
    say(
        console,
        f"from {source.name} ({_named(source.revision, 'no revision')}, "
        f"{_named(source.license, 'license unknown')}): {manifest.conversations_used:,} of "
        f"{source.conversations:,} conversations, seed {manifest.seed}",
    )
    say(console, f"tokenizer {tokenizer.name}, loss mask {manifest.loss_mask}")
    for reason, count in manifest.skipped.items():
        say(console, f"left out {count:,}: {reason}")


def _named(word: str | None, absent: str) -> str:
    return word or absent


def draw_checked_rows(checked: RowsCheck, console: Console) -> None:
    """Every problem, or that there is none."""
    for problem in checked.problems:
        say(console, f"{checked.path.name}: {problem}")
    if checked.passed:
        draw_manifest(checked.manifest, console)
        say(console, "ok: digests, shapes, targets and ids")


def draw_row(shown: ShownRow, console: Console) -> None:
    """A row with its supervised tokens in colour, or in quotation marks where there is none."""
    from rich.text import Text

    supervised = sum(s.tokens for s in shown.stretches if s.supervised)
    total = sum(s.tokens for s in shown.stretches)
    say(console, f"row {shown.row}: {supervised} of {total} tokens supervised")
    text = Text.assemble(*(_stretch(s, console.is_terminal) for s in shown.stretches))
    console.print(text, soft_wrap=True, highlight=False)
    if not shown.decoded:
        say(console, "these are ids; --tokenizer shows text")


def _stretch(stretch: Stretch, coloured: bool) -> Text:
    from rich.text import Text

    shown = visible(stretch.text)
    if coloured:
        return Text(shown, style=_SUPERVISED if stretch.supervised else _LEFT_OUT)
    before, after = _MARKS if stretch.supervised else ("", "")
    return Text(f"{before}{shown}{after}")
