"""Search spaces: what they hold, what they refuse, and their speed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from attune.catalog import load_cluster, load_model
from attune.errors import AttuneError
from attune.layout import parse_layout
from attune.layout.rules import Setting, check
from attune.layout.space import default_space, enumerate_layouts, load_space
from attune.layout.stage_choices import stage_choices
from attune.workload import Workload

GLM45 = (
    "tp=4 pp=16 ep=8 first=5 last=3",
    "tp=2 pp=8 first=10 last=10 ep=16 recompute=core_attn,moe overlap_shared_experts=on",
)
OFFLOADED = "recompute=full offload=0.9 overlap_offload=on"
GLM52 = tuple(
    f"tp=4 pp=2 first=38 last=40 cp={cp} ep=32 rows={rows} {OFFLOADED}"
    for cp, rows in ((4, 8), (4, 6), (8, 8))
)


@pytest.mark.parametrize(
    ("name", "count", "texts"), [("glm-4.5", 128, GLM45), ("glm-5.2", 64, GLM52)]
)
def test_published_layouts_are_drawn_and_legal(
    name: str, count: int, texts: tuple[str, ...]
) -> None:
    model = load_model(name)
    drawn = enumerate_layouts(load_space("default"), model, count)
    setting = Setting.of(model, load_cluster("h200", count), Workload(), "miles")
    table = drawn.table.take(check(setting, drawn.table).legal)
    for text in texts:
        layout = parse_layout(text)
        same = (table.tp == layout.tp) & (table.pp == layout.pp) & (table.ep == layout.ep)
        same &= (table.first == layout.first) & (table.cp == layout.cp)
        near = table.take(same)
        assert layout in {near.row(index) for index in range(len(near))}, text


def test_points_are_counted_to_the_last_and_fast() -> None:
    model = load_model("glm-4.5")
    start = time.process_time()
    drawn = enumerate_layouts(load_space("default"), model, 128)
    judgement = check(Setting(model=model, count=128, workload=Workload()), drawn.table)
    assert time.process_time() - start < 2.0
    assert drawn.drawn == len(drawn.table) + sum(drawn.cut.values())
    assert 300_000 < drawn.drawn < 900_000
    assert judgement.legal.sum() > 10_000


def test_default_space_follows_the_model() -> None:
    kinds = {"glm-4.5": "moe", "qwen3-8b": "dense", "tiny-moe": "tiny", "tiny-dense": "tiny"}
    assert {name: default_space(load_model(name)) for name in kinds} == kinds


@pytest.mark.parametrize("name", ["tiny-moe", "tiny-dense"])
def test_tiny_models_have_layouts_on_four_processes(name: str) -> None:
    model = load_model(name)
    setting = Setting.of(model, load_cluster("cpu", 4), Workload(**(model.workload or {})))
    drawn = enumerate_layouts(load_space("tiny"), model, 4)
    legal = drawn.table.take(check(setting, drawn.table).legal)
    assert {1, 2, 4} <= set(legal.pp.tolist()) and {1, 2} <= set(legal.tp.tolist())


def test_held_dimensions_have_one_value() -> None:
    model = load_model("glm-4.5")
    space = load_space("moe")
    drawn = enumerate_layouts(space, model, 128, {"tp": 4, "pp": 16, "first": 5, "last": 3})
    assert set(drawn.table.tp.tolist()) == {4} and set(drawn.table.first.tolist()) == {5}
    assert drawn.drawn == len(drawn.table) + sum(drawn.cut.values())
    with pytest.raises(AttuneError, match="did you mean `dispatcher`"):
        enumerate_layouts(space, model, 128, {"dispacher": "flex"})


def test_a_space_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "tp: 4\npp: [2, 4]\nep: [8]\netp: [1, tp]\nstages: [even, {pp: 4, first: 22, last: 22}]\n"
        "recompute: [none, full method=block recompute_layers=2]\noverlap_gradients: [on, off]\n"
    )
    drawn = enumerate_layouts(load_space(str(file)), load_model("glm-4.5"), 128)
    assert drawn.drawn == 3 * 2 * 4
    rows = {drawn.table.row(index) for index in range(len(drawn.table))}
    assert parse_layout("tp=4 pp=4 ep=8 first=22 last=22") in rows


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tpp: [1]", "unknown field `tpp`; did you mean `tp`?"),
        ("tp: [0]", "greater than or equal to 1"),
        ("tp: [a]", "valid integer"),
        ("tp: []", "at least 1"),
        ("stages: [odd]", "stages"),
        ("[1, 2]", "must be a mapping"),
        ("tp: [", "not valid YAML"),
        ("recompute: [sometimes=1]", "`recompute` takes none, selective, full"),
    ],
)
def test_a_damaged_space_says_where(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text + "\n")
    with pytest.raises(AttuneError, match=says.replace("?", r"\?")):
        enumerate_layouts(load_space(str(file)), load_model("glm-4.5"), 8)


def test_too_many_points_are_refused() -> None:
    many = load_space("moe").model_copy(update={"tp": tuple(range(1, 400))})
    with pytest.raises(AttuneError, match="take values out"):
        enumerate_layouts(many, load_model("glm-4.5"), 128)


def test_an_unknown_space_names_the_nearest() -> None:
    with pytest.raises(AttuneError, match="did you mean `dense`"):
        load_space("densse")


def test_stage_choices_hold_all_layers_and_begin_even() -> None:
    model = load_model("glm-4.5")
    assert stage_choices(model, 4)[0] == (None, None)
    assert (5, 3) in stage_choices(model, 16) and (10, 10) in stage_choices(model, 8)
    for pp in (2, 3, 8, 16, 32):
        for first, last in stage_choices(model, pp, 1, 50):
            if first is not None and last is not None and pp > 2:
                assert (92 - first - last) % (pp - 2) == 0
    assert stage_choices(load_model("glm-5.2"), 2)[0] == (38, 40)
