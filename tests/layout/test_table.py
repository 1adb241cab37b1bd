"""Tables of layouts."""

from __future__ import annotations

import numpy as np
from any_layout import ANY_LAYOUT
from hypothesis import given
from hypothesis import strategies as st

from attune.layout import Layout, LayoutTable, parse_layout
from attune.layout.table import COLUMNS, MODULES, UNKNOWN_MODULE, modules_mask, modules_of

SOME = st.lists(ANY_LAYOUT, max_size=5)


@given(SOME)
def test_rows_come_back_as_they_went_in(layouts):
    table = LayoutTable.of(layouts)
    assert len(table) == len(layouts)
    assert [table.row(i) for i in range(len(table))] == layouts


@given(st.lists(SOME, min_size=1, max_size=3))
def test_tables_join_in_order(parts):
    table = LayoutTable.concatenate([LayoutTable.of(part) for part in parts])
    flat = [layout for part in parts for layout in part]
    assert [table.row(i) for i in range(len(table))] == flat


@given(SOME, st.data())
def test_rows_are_taken_by_mask_and_by_index(layouts, data):
    table = LayoutTable.of(layouts)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(table), max_size=len(table))))
    kept = table.take(mask.astype(np.bool_))
    assert [kept.row(i) for i in range(len(kept))] == [x for x, m in zip(layouts, mask) if m]
    index = np.flatnonzero(mask)[::-1]
    turned = table.take(index)
    assert [turned.row(i) for i in range(len(turned))] == [layouts[i] for i in index]


def test_columns_keep_their_types():
    table = LayoutTable.of([])
    assert {name: getattr(table, name).dtype.type for name in COLUMNS} == COLUMNS
    assert COLUMNS["optimizer_offload"] is np.float64
    assert COLUMNS["sequence_parallel"] is np.bool_


@given(st.sets(st.sampled_from(MODULES)))
def test_modules_fit_a_mask(modules):
    assert modules_of(modules_mask(modules)) == tuple(sorted(modules))


def test_an_unknown_module_leaves_its_mark():
    assert modules_mask(["moe", "moon"]) & UNKNOWN_MODULE
    assert not modules_mask(MODULES) & UNKNOWN_MODULE


def test_selective_recompute_covers_core_attention_unless_told_otherwise():
    texts = ("recompute=none", "recompute=selective", "recompute=moe", "recompute=full")
    table = LayoutTable.of([parse_layout(text) for text in texts])
    assert table.recomputes("core_attn").tolist() == [False, True, False, False]
    assert table.recomputes("moe").tolist() == [False, False, True, False]


def test_derived_degrees_equal_those_of_single_layouts():
    layouts = [Layout(tp=4, pp=16, ep=8), Layout(tp=2, pp=4, cp=2, ep=4, etp=2), Layout()]
    table = LayoutTable.of(layouts)
    assert table.dp(128).tolist() == [x.dp(128) for x in layouts] == [2, 8, 128]
    assert table.edp(128).tolist() == [x.edp(128) for x in layouts] == [1, 4, 128]
    assert table.microbatches(128, 256).tolist() == [128, 32, 2]


def test_a_grid_larger_than_the_cluster_has_no_replica():
    table = LayoutTable.of([Layout(tp=16, pp=16)])
    assert table.dp(128).tolist() == [0]
    assert table.microbatches(128, 256).tolist() == [256]
