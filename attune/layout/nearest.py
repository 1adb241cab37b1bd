"""How far apart layouts are, and the layout of a table that is nearest to one."""

from __future__ import annotations

import numpy as np

from attune.layout.layout import Layout
from attune.layout.table import Floats, LayoutTable

_DEGREES = ("tp", "pp", "vpp", "cp", "ep", "etp", "rows_per_microbatch")
_COUNTS = ("first", "last")
_SHARES = ("optimizer_offload",)
_KNOBS = (
    "sequence_parallel",
    "recompute",
    "recompute_modules",
    "recompute_method",
    "recompute_layers",
    "dispatcher",
    "overlap_offload",
    "precision_aware_optimizer",
    "overlap_shared_experts",
    "overlap_experts",
    "overlap_gradients",
    "overlap_parameters",
    "overlap_tensor",
    "cuda_graphs",
    "delayed_weight_gradients",
    "distributed_optimizer",
)
_KNOB = 0.5
"""A knob turned counts as half a doubling of a degree: it changes less of how a step runs."""
_LAYER = 0.05
"""One layer moved between stages."""


def distance(a: Layout, table: LayoutTable) -> Floats:
    """[n] distance of a layout from every row: doublings of degrees, plus knobs turned.

    Zero exactly where a row equals the layout; symmetric, and the triangle inequality holds.
    """
    one = LayoutTable.of([a])
    total = np.zeros(len(table))
    for name in _DEGREES:
        theirs, ours = getattr(table, name), getattr(one, name)
        total += np.abs(np.log2(np.maximum(theirs, 1)) - np.log2(np.maximum(ours, 1)))
    for name in _COUNTS:
        total += _LAYER * np.abs(getattr(table, name) - getattr(one, name))
    for name in _SHARES:
        total += np.abs(getattr(table, name) - getattr(one, name))
    for name in _KNOBS:
        total += _KNOB * (getattr(table, name) != getattr(one, name))
    texts = np.array([*(x == a.pipeline_layout for x in table.pipeline_layouts), False])
    same = np.where(
        table.pipeline_layout < 0, a.pipeline_layout is None, texts[table.pipeline_layout]
    )
    total += _KNOB * ~same
    return total


def nearest_layout(layout: Layout, table: LayoutTable) -> int:
    """Index of the row nearest to `layout`, the first of equals; the table has at least one."""
    return int(np.argmin(distance(layout, table)))
