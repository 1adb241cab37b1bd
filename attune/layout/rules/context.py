"""Rules of context parallelism and of the sparse-attention indexer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attune.layout.divisors import largest_divisor
from attune.layout.layout import Layout
from attune.layout.rules.pipeline import balanced
from attune.layout.rules.rule import Rule, always
from attune.layout.rules.setting import Setting
from attune.layout.stages import stage_splits
from attune.layout.table import Bools, LayoutTable, degree


def _row(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = (table.cp <= 1) | (setting.workload.row_tokens % (2 * degree(table.cp)) == 0)
    return good


def _row_message(setting: Setting, layout: Layout) -> str:
    return (
        f"a row ({setting.workload.row_tokens} tokens) must divide by 2 x CP (2 x {layout.cp}), "
        "as each rank takes a chunk from either end; lower CP or change the row tokens"
    )


def _row_cure(setting: Setting, layout: Layout) -> Layout:
    tokens = setting.workload.row_tokens
    return replace(layout, cp=1 if tokens % 2 else largest_divisor(tokens // 2, layout.cp))


def _starts(setting: Setting, table: LayoutTable) -> Bools:
    indexer = setting.model.indexer
    good = always(table)
    sound = np.flatnonzero((degree(table.pp) * degree(table.vpp)) <= setting.model.layers)
    if indexer is None or not len(sound):
        return good
    splits = stage_splits(setting.model, table.take(sound))
    computes = np.array([indexer.computes(x + 1) for x in range(setting.model.layers)])
    place = np.minimum(splits.start, setting.model.layers - 1)
    wrong = (splits.layers > 0) & ~computes[place]
    good[sound] = ~wrong.any(axis=(1, 2))[splits.split]
    return good


def _starts_message(setting: Setting, layout: Layout) -> str:
    splits = stage_splits(setting.model, LayoutTable.of([layout]))
    starts = sorted((splits.start[splits.layers > 0] + 1).tolist())
    assert setting.model.indexer is not None
    wrong = [x for x in starts if not setting.model.indexer.computes(x)]
    return (
        "every pipeline stage must start on a layer that computes its own index, but stages start "
        f"on layers {', '.join(map(str, wrong[:6]))}, which share an earlier one; "
        "change the first and last counts"
    )


RULES = (
    Rule(
        id="cp.row_divides",
        holds=_row,
        message=_row_message,
        cure=_row_cure,
        source="training/arguments.py",
        needs=frozenset({"row_tokens"}),
    ),
    Rule(
        id="indexer.stage_starts",
        holds=_starts,
        message=_starts_message,
        cure=balanced,
        source="miles_plugins/models/glm5/glm5.py (DSA index sharing)",
    ),
)
