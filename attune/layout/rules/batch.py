"""Rules of the global batch and its microbatches."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

import numpy as np

from attune.layout.divisors import largest_divisor
from attune.layout.layout import Layout
from attune.layout.microbatches import pack
from attune.layout.rules.rule import Rule
from attune.layout.rules.setting import Setting
from attune.layout.table import Bools, LayoutTable, degree


def _rows(setting: Setting, table: LayoutTable) -> Bools:
    per_step = degree(table.rows_per_microbatch) * np.maximum(table.dp(setting.count), 1)
    good: Bools = setting.workload.global_batch % per_step == 0
    return good


def _rows_message(setting: Setting, layout: Layout) -> str:
    return (
        f"rows per microbatch x DP ({layout.rows_per_microbatch} x {_dp(setting, layout)}) must "
        f"divide the global batch ({setting.workload.global_batch}); take fewer rows per "
        "microbatch, or more of TP, PP or CP"
    )


def _rows_cure(setting: Setting, layout: Layout) -> Layout:
    """Fewer rows per microbatch; where DP itself does not divide the batch, more CP first."""
    batch, dp = setting.workload.global_batch, _dp(setting, layout)
    shared = gcd(batch, dp)
    rows = largest_divisor(batch // shared, layout.rows_per_microbatch)
    return replace(layout, rows_per_microbatch=rows, cp=max(layout.cp, 1) * (dp // shared))


def _dp(setting: Setting, layout: Layout) -> int:
    return max(layout.dp(setting.count), 1)


def _reach(setting: Setting, table: LayoutTable) -> Bools:
    batch = setting.workload.global_batch
    good: Bools = pack(table, setting.count, batch).bins <= batch
    return good


def _reach_message(setting: Setting, layout: Layout) -> str:
    bins = int(pack(LayoutTable.of([layout]), setting.count, setting.workload.global_batch).bins[0])
    return (
        f"every data-parallel rank needs whole groups of microbatches: {bins} of at least one row, "
        f"but the global batch has {setting.workload.global_batch} rows; lower DP or VPP"
    )


def _reach_cure(setting: Setting, layout: Layout) -> Layout:
    dp = _dp(setting, layout)
    shared = gcd(setting.workload.global_batch, dp)
    return replace(layout, vpp=1, cp=max(layout.cp, 1) * (dp // shared))


_BATCH = frozenset({"world", "global_batch", "rows_per_microbatch"})

RULES = (
    Rule(
        id="batch.rows_divide",
        holds=_rows,
        message=_rows_message,
        cure=_rows_cure,
        source="num_microbatches_calculator.py",
        needs=_BATCH,
    ),
    Rule(
        id="batch.rows_reach_ranks",
        holds=_reach,
        message=_reach_message,
        cure=_reach_cure,
        source="miles and slime: utils/dp_schedule.py",
        extra=True,
        needs=_BATCH,
    ),
)
