"""Distinct rows of a few integer columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attune.layout.table import Ints


def distinct_rows(columns: Sequence[Ints]) -> tuple[Ints, Ints]:
    """Index of one row of each distinct combination, and of each row's combination among them.

    Packs the columns into one integer, many times faster than `np.unique(axis=0)`; where they do
    not fit into 63 bits, that is what it falls back to.
    """
    if not len(columns[0]):
        none = np.zeros(0, dtype=np.int64)
        return none, none
    key, capacity = np.zeros_like(columns[0]), 1
    for column in columns:
        low, high = int(column.min()), int(column.max())
        capacity *= high - low + 1
        if capacity >= 1 << 62:
            return _distinct_by_row(columns)
        key = key * (high - low + 1) + (column - low)
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    return first, place.reshape(-1)


def _distinct_by_row(columns: Sequence[Ints]) -> tuple[Ints, Ints]:
    rows = np.stack(columns, axis=1)
    _, first, place = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, place.reshape(-1)
