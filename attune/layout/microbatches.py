"""How rows fall into microbatches where rows are packed (dynamic batching).

Source: miles and slime, utils/dp_schedule.py: bins of at most rows_per_microbatch rows, their
number rounded up to a multiple of the data-parallel degree (times the microbatch group when
virtual stages are interleaved) by halving the fullest bins; bins are dealt to ranks in turn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attune.layout.table import Floats, Ints, LayoutTable, degree


@dataclass(frozen=True, kw_only=True, slots=True)
class Packing:
    """Bins of one step for each row of a table."""

    bins: Ints
    """[n] microbatches of all data-parallel ranks together."""
    per_rank: Ints
    """[n] microbatches of one data-parallel rank."""
    rows: Floats
    """[n] mean rows of a bin."""


def pack(table: LayoutTable, count: int, global_batch: int) -> Packing:
    """Microbatches of a step of `global_batch` equal rows on `count` GPUs, by layout.

    With rows that divide evenly it equals the fixed split into microbatches.
    """
    dp = np.maximum(table.dp(count), 1)
    group = np.where(table.vpp > 1, degree(table.pp), 1)
    align = dp * group
    wanted = -(-global_batch // degree(table.rows_per_microbatch))
    bins: Ints = -(-wanted // align) * align
    return Packing(bins=bins, per_rank=bins // dp, rows=global_batch / bins)


def rows_per_bin(max_tokens_per_gpu: int, row_tokens: int, cp: int = 1) -> int:
    """Rows of one bin under a token limit per GPU; a row over the limit still gets a bin."""
    return max(1, max_tokens_per_gpu * cp // row_tokens)


def tokens_per_gpu(rows_per_microbatch: int, row_tokens: int, cp: int = 1) -> int:
    """The token limit per GPU that gives so many rows per bin (`--max-tokens-per-gpu`)."""
    return -(-rows_per_microbatch * row_tokens // cp)


def bin_sizes(global_batch: int, rows_per_microbatch: int, align: int) -> list[int]:
    """Rows of every bin, fullest first: filled in order, then halved until `align` divides."""
    full, rest = divmod(global_batch, rows_per_microbatch)
    bins = [rows_per_microbatch] * full + ([rest] if rest else [])
    while len(bins) % align and max(bins) > 1:
        largest = bins.pop(bins.index(max(bins)))
        bins += [largest - largest // 2, largest // 2]
    return sorted(bins, reverse=True)
