"""Parameters against what megatron-core 0.16.1 built (tests/cases/parameter_counts.csv)."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from attune.catalog import load_model, model_names
from attune.counts import active_parameters, rank_parameters, stage_parameters, total_parameters
from attune.layout import Layout, LayoutTable, parse_layout

CASES = Path(__file__).parent.parent / "cases" / "parameter_counts.csv"
ROWS = list(csv.DictReader(CASES.open()))


def _number(text: str, default: int | None) -> int | None:
    return int(text) if text else default


def _layout(row: dict[str, str]) -> Layout:
    return Layout(
        tp=int(row["tp"]),
        pp=int(row["pp"]),
        vpp=_number(row["vpp"], 1) or 1,
        cp=int(row["cp"]),
        ep=_number(row["ep"], 1) or 1,
        etp=int(row["etp_resolved"] or 1),
        first=_number(row["first"], None),
        last=_number(row["last"], None),
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{r['model']}-{r['world']}-{r['rank']}")
def test_counts_equal_megatron(row: dict[str, str]) -> None:
    model = load_model(row["model"])
    model = model.model_copy(update={"tied_embeddings": row["tied_embeddings"] == "1"})
    counted = rank_parameters(model, _layout(row), int(row["world"]), int(row["rank"]))
    assert counted == (int(row["dense_parameters"]), int(row["expert_parameters"]))


def test_active_parameters_of_published_pages() -> None:
    assert active_parameters(load_model("glm-4.5")) == 32_854_016_000
    assert active_parameters(load_model("glm-5.2")) == 40_297_758_720
    assert active_parameters(load_model("glm-5")) == 40_831_942_656


@pytest.mark.parametrize(
    ("name", "router_buffers", "published"),
    [
        ("glm-4.5", 89 * 160, 352_797_829_024),
        ("deepseek-v3", 0, 671_026_404_352),
        ("glm-5.2", 0, 743_377_000_704),
        ("glm-5.2", 75 * 256, 743_377_019_904),
        ("llama-3.1-8b", 0, 8_030_261_248),
    ],
)
def test_totals_of_published_models(name: str, router_buffers: int, published: int) -> None:
    """Some published totals count the router's expert bias, which is a buffer, not a parameter."""
    assert total_parameters(load_model(name)) + router_buffers == published


def test_one_rank_holds_the_whole_model() -> None:
    for name in model_names():
        model = load_model(name)
        counts = stage_parameters(model, LayoutTable.of([Layout()]))
        padding = (model.padded_vocabulary(1) - model.vocabulary) * model.hidden
        copies = 1 if model.tied_embeddings else 2
        assert counts.dense[0, 0] == total_parameters(model) + copies * padding, name


def test_a_table_gives_what_its_rows_give() -> None:
    model = load_model("glm-4.5")
    layouts = [parse_layout(x) for x in ("tp=4 pp=16 ep=8 first=5 last=3", "tp=2 pp=4 ep=16 vpp=1")]
    together = stage_parameters(model, LayoutTable.of(layouts))
    for index, layout in enumerate(layouts):
        alone = stage_parameters(model, LayoutTable.of([layout]))
        assert np.array_equal(together.dense[index, : layout.pp], alone.dense[0])
        assert not together.dense[index, layout.pp :].any()
        assert np.array_equal(together.expert[index, : layout.pp], alone.expert[0])
