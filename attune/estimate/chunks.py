"""A table cut into chunks of like schedule, so that no array is padded far or grows large."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attune.layout import LayoutTable
from attune.layout.table import Floats, Ints

_CELLS = 200_000
"""Rows x stages of one chunk: its arrays stay within a few MiB each."""


def schedule_chunks(table: LayoutTable) -> Iterator[tuple[Ints, LayoutTable]]:
    """Row indices and rows of each chunk; the rows of one chunk share PP and VPP."""
    keys = table.pp * (1 << 32) + table.vpp
    order = np.argsort(keys, kind="stable")
    edges = np.flatnonzero(np.diff(keys[order])) + 1
    for group in np.split(order, edges):
        if not len(group):
            continue
        size = max(_CELLS // max(int(table.pp[group[0]]), 1), 1)
        for start in range(0, len(group), size):
            rows = group[start : start + size]
            yield rows, table.take(rows)


def padded(values: Floats, width: int) -> Floats:
    """[n, P] with zero columns up to `width` stages."""
    return np.pad(values[:, :width], ((0, 0), (0, max(width - values.shape[1], 0))))
