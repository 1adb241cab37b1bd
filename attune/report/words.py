"""Numbers as people read them, and the badge of where a number comes from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""C0 but for tab and line end, DEL, C1 (a terminal obeys both sets), and what turns text around."""

_SCALES = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K"))
_BADGES = {
    "predicted": "yellow",
    "measured": "cyan",
    "verified": "green",
    "published": "magenta",
}
ABSENT = "-"
_SMALL_GIB = 1.0


def badge(provenance: str) -> str:
    """Where a number comes from, as console markup: `[yellow]predicted[/]`."""
    return f"[{_BADGES.get(provenance, 'white')}]{provenance}[/]"


def number(value: float | None, digits: int = 0) -> str:
    """`1,234.5`; a dash for None."""
    return ABSENT if value is None else f"{value:,.{digits}f}"


def seconds(value: float | None) -> str:
    """Seconds with three significant digits: `0.412`, `41.2`, `1,200`."""
    if value is None:
        return ABSENT
    digits = 3 if value < 1 else 2 if value < 10 else 1 if value < 1000 else 0
    return number(value, digits)


def gib(value: float | None, of: float | None = None) -> str:
    """GiB with one decimal, three where it or the limit `of` is small."""
    if value is None:
        return ABSENT
    return number(value, 3 if (value if of is None else of) < _SMALL_GIB else 1)


def percent(share: float | None, digits: int = 1) -> str:
    """A share of one as percent: `42.0 %`."""
    return ABSENT if share is None else f"{100 * share:.{digits}f} %"


def size(value: float) -> str:
    """A count in short: `352.8B`."""
    for scale, letter in _SCALES:
        if value >= scale:
            return f"{value / scale:.1f}{letter}"
    return f"{value:g}"


def spent(gpu_hours: float, provenance: str) -> str:
    """GPU-hours in words; those of a virtual cluster cost nothing."""
    if provenance == "predicted":
        return f"virtual cluster: {gpu_hours:,.2f} GPU-hours on its clock, none spent"
    return f"spent: {gpu_hours:,.2f} GPU-hours"


def brief(text: str, most: int = 200) -> str:
    """`text` cut after a whole sentence, else a whole word, where it is longer than `most`."""
    if len(text) <= most:
        return text
    kept = text[:most]
    whole = kept.rpartition(". ")[0]
    return f"{whole}. ..." if whole else f"{kept.rpartition(' ')[0] or kept} ..."


def duration(value: float) -> str:
    """A length of time in words: `1 h 05 min`, `3 min 20 s`, `12 s`."""
    whole = round(value)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    if whole >= 60:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole} s"


def grid(columns: Sequence[str], *, left: int = 1) -> Table:
    """An empty table; the first `left` columns hold words, the others numbers."""
    from rich import box
    from rich.table import Table

    class Grid(Table):
        def add_row(self, *cells: Any, **options: Any) -> None:
            shown = (visible(cell) if isinstance(cell, str) else cell for cell in cells)
            super().add_row(*shown, **options)

    table = Grid(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    for place, column in enumerate(columns):
        if place < left:
            table.add_column(column, overflow="fold")
        else:
            table.add_column(column, justify="right", no_wrap=True)
    return table


def visible(text: str) -> str:
    """Text in which a terminal finds nothing to obey: an escape character becomes `\\x1b`."""
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def say(console: Console, text: str) -> None:
    """Prints a line whose words are data: no markup is read, nothing is coloured by guess.

    A terminal gets it wrapped at words; a pipe or file gets it whole.
    """
    console.print(visible(text), markup=False, highlight=False, soft_wrap=not console.is_terminal)


def say_marked(console: Console, markup: str) -> None:
    """Prints a line of console markup, wrapped as `say` does; data in it must be escaped."""
    console.print(visible(markup), highlight=False, soft_wrap=not console.is_terminal)


def escaped(text: str) -> str:
    """Words that are data, made safe to stand in markup and in the cells of a table."""
    from rich.markup import escape

    return escape(visible(text))


def say_whole(console: Console, text: str) -> None:
    """Prints a line that a person may copy, so it is never broken; no markup is read."""
    console.print(visible(text), markup=False, highlight=False, soft_wrap=True)
