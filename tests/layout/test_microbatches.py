"""Packing of equal rows, against the real schedule of miles and slime (dp_schedule.py)."""

from __future__ import annotations

import pytest

from attune.layout import LayoutTable, parse_layout
from attune.layout.microbatches import bin_sizes, pack, rows_per_bin, tokens_per_gpu


@pytest.mark.parametrize(
    ("tokens", "cp", "dp", "vpp", "pp", "rows", "bins", "per_rank"),
    [
        (8192, 1, 2, 1, 16, 1, 128, 64),
        (16384, 4, 2, 1, 2, 8, 16, 8),
        (12288, 4, 2, 1, 2, 6, 22, 11),
        (8192, 8, 1, 1, 2, 8, 16, 16),
        (12288, 1, 2, 1, 16, 1, 128, 64),
        (8192, 1, 2, 2, 16, 1, 128, 64),
        (10240, 4, 16, 1, 8, 5, 32, 2),
        (10240, 4, 16, 2, 8, 5, 128, 8),
    ],
)
def test_published_schedules(
    tokens: int, cp: int, dp: int, vpp: int, pp: int, rows: int, bins: int, per_rank: int
) -> None:
    assert rows_per_bin(tokens, 8192, cp) == rows
    table = LayoutTable.of([parse_layout(f"pp={pp} vpp={vpp} cp={cp} rows={rows}")])
    packed = pack(table, pp * cp * dp, 128)
    assert (packed.bins[0], packed.per_rank[0]) == (bins, per_rank)
    assert packed.rows[0] == pytest.approx(128 / bins)


def test_bins_are_filled_then_halved() -> None:
    assert bin_sizes(128, 6, 2) == [6] * 21 + [2]
    assert sorted(set(bin_sizes(128, 5, 16))) == [2, 3, 5]
    assert bin_sizes(128, 5, 128) == [1] * 128


@pytest.mark.parametrize(("rows", "cp"), [(1, 1), (6, 4), (8, 4), (8, 8), (3, 2), (5, 4)])
def test_token_limit_gives_back_its_rows(rows: int, cp: int) -> None:
    assert rows_per_bin(tokens_per_gpu(rows, 8192, cp), 8192, cp) == rows


def test_rows_that_divide_pack_as_fixed_microbatches() -> None:
    table = LayoutTable.of([parse_layout(f"tp=2 rows={rows}") for rows in (1, 2, 4, 8)])
    assert (pack(table, 16, 128).per_rank == table.microbatches(16, 128)).all()
