"""A judged table of layouts, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attune.report.words import say

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedTable:
    """A table of layouts after its judgement."""

    output: Path
    rows: int
    verdicts: dict[str, int]
    """Rows by verdict: legal, illegal, silently_wrong."""


def draw_judged(judged: JudgedTable, console: Console) -> None:
    """Rows by verdict, and where the table stands."""
    words = ", ".join(f"{n:,} {verdict}" for verdict, n in judged.verdicts.items())
    say(console, f"{judged.rows:,} layouts: {words}")
    say(console, f"wrote {judged.output}")
