from __future__ import annotations

from pathlib import Path

import pytest

from attune.catalog import load_cluster, load_model, model_names
from attune.errors import AttuneError
from attune.layout.rules import Setting, broken_rules
from attune.recipe import check_recipe, dump_recipe, find_reference, layout_of, load_recipe
from attune.recipe.files import parse_text
from attune.recipe.library import recipe_files
from attune.recipe.words import stage_layers
from attune.workload import Workload

FILES = recipe_files()


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parts[-3]}-{path.parts[-2]}")
def test_a_shipped_recipe_is_sound_and_says_where_it_comes_from(path: Path) -> None:
    recipe = load_recipe(path)
    assert check_recipe(recipe) == []
    assert parse_text(dump_recipe(recipe)) == parse_text(path.read_text(encoding="utf-8"))
    assert recipe.attune is not None
    ours = recipe.attune.provenance != "published"
    assert recipe.attune.experiment if ours else recipe.attune.source
    assert recipe.attune.model_id == path.parts[-3] in model_names()
    assert recipe.attune.hardware == path.parts[-2]
    assert layout_of(recipe).dp(recipe.gpu.count) == recipe.layout.dp


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parts[-3]}-{path.parts[-2]}")
def test_a_shipped_layout_breaks_no_rule_on_its_own_cluster(path: Path) -> None:
    recipe = load_recipe(path)
    workload = Workload(
        row_tokens=recipe.workload.row_tokens, global_batch=recipe.workload.global_batch
    )
    cluster = load_cluster(recipe.gpu.type, recipe.gpu.count)
    trainer = recipe.stack.framework.split()[0]
    framework = trainer if trainer in ("miles", "slime") else "megatron-core"
    setting = Setting.of(load_model(path.parts[-3]), cluster, workload, framework)
    assert broken_rules(setting, layout_of(recipe)) == []


def test_references_of_glm_4_5() -> None:
    h200, h100 = find_reference("glm-4.5", "h200"), find_reference("glm-4.5", "h100")
    assert h200 is not None and h100 is not None
    assert (h200.gpu.type, h100.gpu.type) == ("H200", "H100")
    layout = layout_of(h200)
    assert (layout.tp, layout.pp, layout.ep, layout.first, layout.last) == (2, 8, 16, 10, 10)
    assert layout.recompute_modules == ("core_attn", "moe")
    assert layout_of(h100).overlap_gradients and not layout.overlap_gradients


def test_another_gpu_takes_the_most_similar_one() -> None:
    for gpu, wanted in (("b200", "H200"), ("a100-80", "H100")):
        found = find_reference("glm-4.5", gpu)
        assert found is not None and found.gpu.type == wanted


def test_a_model_without_reference_has_none() -> None:
    assert find_reference("tiny-moe", "cpu") is None
    assert find_reference("../..", "h200") is None
    with pytest.raises(AttuneError, match="no GPU named"):
        find_reference("glm-4.5", "z9000")


def test_uneven_depths_are_spelt_out() -> None:
    for model in ("qwen3-235b-a22b", "llama-3.1-405b", "deepseek-v3"):
        recipe = find_reference(model, "h100")
        assert recipe is not None
        layout = layout_of(recipe)
        assert sum(stage_layers(layout, load_model(model))) == load_model(model).layers
