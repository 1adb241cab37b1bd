"""Stage splits, against the layers that megatron-core itself builds."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from attune.catalog import load_model
from attune.layout import Layout, LayoutTable, parse_layout, stage_splits

CASES = Path(__file__).parent / "cases"


def read(name: str) -> list[dict[str, str]]:
    with (CASES / name).open(encoding="utf-8") as stream:
        return list(csv.DictReader(line for line in stream if not line.startswith("#")))


def layout_of(row: dict[str, str]) -> Layout:
    whole = {key: int(row[key]) for key in ("pp", "vpp", "first", "last") if row[key]}
    return Layout(**whole)


def splits_of(name: str, *texts: str):
    return stage_splits(load_model(name), LayoutTable.of([parse_layout(text) for text in texts]))


@pytest.mark.parametrize("row", read("stage_layers.csv"), ids=lambda row: "-".join(row.values()))
def test_a_stage_holds_the_layers_that_megatron_builds(row):
    layout = layout_of(row)
    splits = stage_splits(load_model(row["model"]), LayoutTable.of([layout]))
    layers = splits.layers[splits.split[0], int(row["stage"])]
    assert layers[: layout.vpp].tolist() == json.loads(row["layers_on_stage"])


@pytest.mark.parametrize("row", read("split_layers.csv"), ids=lambda row: "-".join(row.values()))
def test_a_split_holds_the_layers_that_megatron_builds(row):
    layout = layout_of(row)
    splits = stage_splits(load_model(row["model"]), LayoutTable.of([layout]))
    assert splits.layers[0].tolist() == json.loads(row["layers_per_stage"])


def test_rows_share_their_splits():
    splits = splits_of("glm-4.5", "pp=2", "pp=4 first=5 last=3", "pp=2 tp=4", "pp=2 vpp=2")
    assert len(splits.pp) == 3
    assert splits.split[0] == splits.split[2]
    assert len(set(splits.split.tolist())) == 3


def test_cells_beyond_a_split_hold_nothing():
    splits = splits_of("glm-4.5", "pp=2 vpp=2", "pp=4 first=5 last=3")
    wide, deep = int(splits.split[1]), int(splits.split[0])
    assert splits.layers.shape == (2, 4, 2)
    assert splits.layers[wide].tolist() == [[5, 0], [42, 0], [42, 0], [3, 0]]
    assert splits.layers[deep].tolist() == [[23, 23], [23, 23], [0, 0], [0, 0]]
    assert splits.exists[deep].tolist() == [True, True, False, False]


def test_chunks_start_in_model_order():
    splits = splits_of("qwen3-8b", "pp=2 vpp=2 first=8")
    assert splits.layers[0].tolist() == [[4, 4], [14, 14]]
    assert splits.start[0].tolist() == [[0, 18], [4, 22]]


def test_moe_layers_begin_after_the_dense_ones():
    splits = splits_of("glm-4.5", "pp=4 first=2 last=30", "pp=46 vpp=2")
    model = load_model("glm-4.5")
    uneven, interleaved = splits.split.tolist()
    assert splits.dense_layers(model)[uneven, :4, 0].tolist() == [2, 1, 0, 0]
    assert splits.moe_layers(model)[uneven, :4, 0].tolist() == [0, 29, 30, 30]
    assert splits.dense_layers(model)[interleaved].sum() == 3
    assert splits.moe_layers(model)[interleaved].sum() == 89


def test_a_dense_model_has_no_moe_layers():
    model = load_model("llama-3.1-70b")
    splits = splits_of("llama-3.1-70b", "pp=8 vpp=2")
    assert not splits.moe_layers(model).any()
    assert splits.dense_layers(model).sum() == 80


def test_an_explicit_layout_places_every_layer():
    splits = splits_of("deepseek-v3", "pp=8 layout=Et*4|(t*4|)*14tL")
    assert splits.vpp.tolist() == [2]
    assert splits.layers[0].sum() == 61
    assert splits.layers[0, :, 0].tolist() == [4] * 8
    assert splits.layers[0, :, 1].tolist() == [4] * 7 + [1]
    assert splits.start[0, 7].tolist() == [28, 60]


def test_an_empty_table_has_no_splits():
    splits = stage_splits(load_model("glm-4.5"), LayoutTable.of([]))
    assert splits.split.shape == (0,)
    assert splits.layers.shape[0] == 0


@pytest.mark.parametrize(("pp", "vpp"), [(1, 1), (1, 2), (2, 1), (2, 47), (47, 2), (94, 1)])
def test_an_even_split_keeps_every_layer_once(pp, vpp):
    splits = splits_of("qwen3-235b-a22b", f"pp={pp} vpp={vpp}")
    assert splits.layers.sum() == 94
    firsts = np.sort(splits.start.ravel())
    assert firsts.tolist() == list(range(0, 94, 94 // (pp * vpp)))
