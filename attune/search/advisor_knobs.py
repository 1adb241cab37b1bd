"""The knobs in which layouts differ: rows one knob away, and knobs in words."""

from __future__ import annotations

import numpy as np

from attune.layout import parse_layout
from attune.layout.table import Bools, Ints, LayoutTable
from attune.search.notes import KNOBS


def one_knob_away(table: LayoutTable, row: int, knobs: tuple[str, ...]) -> dict[int, str]:
    """Rows that differ from `row` in exactly one knob, which is among `knobs`, and its name."""
    turned = np.stack([_differs(table, row, fields) for fields in KNOBS.values()], axis=1)
    single = turned.sum(axis=1) == 1
    which: Ints = turned.argmax(axis=1)
    names = list(KNOBS)
    rows = np.flatnonzero(single).tolist()
    return {r: names[which[r]] for r in rows if names[which[r]] in knobs}


def _differs(table: LayoutTable, row: int, fields: tuple[str, ...]) -> Bools:
    differs: Bools = np.any([getattr(table, f) != getattr(table, f)[row] for f in fields], axis=0)
    return differs


def knob_words(before: str, after: str, knob: str) -> tuple[str, str]:
    """The knob's fields in two layouts, as `tp=4` and `tp=8`; `default` where nothing is said."""
    return _knob(before, knob), _knob(after, knob)


def _knob(layout: str, knob: str) -> str:
    parsed = parse_layout(layout)
    given = {f: getattr(parsed, f) for f in KNOBS[knob]}
    main = KNOBS[knob][0]
    words = [
        f"{name}={_plain(value)}"
        for name, value in given.items()
        if name == main or value not in (None, False, 0, 0.0, ())
    ]
    return " ".join(words)


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
