from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from attune.recipe.checks import check_recipe
from attune.recipe.files import load_recipe, read_data

FOLDER = Path(__file__).parents[1] / "cases" / "recipes"
CASES = sorted(FOLDER.glob("*.yaml"))
GLM45 = read_data(FOLDER / "glm-4.5_h200_attune-tp4-pp16-ep8.yaml")
GLM52 = read_data(FOLDER / "glm-5.2-744b-a40b_b200_attune-tp4-pp2-cp4-mt16k.yaml")


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_published_recipes_are_sound(path: Path) -> None:
    assert check_recipe(load_recipe(path)) == []
    assert check_recipe(read_data(path)) == []


def _damaged(data: dict[str, Any], field: str, value: Any) -> dict[str, Any]:
    """A copy with one field changed; `...` removes it."""
    damaged = copy.deepcopy(data)
    *path, last = field.split(".")
    inner: Any = damaged
    for name in path:
        inner = inner[int(name)] if isinstance(inner, list) else inner[name]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return damaged


RUN = GLM45["run"]
SUMMARY = GLM45["layout"]["summary"]

DAMAGES = [
    # field changed, value, field blamed, words of the reason
    ("schema_version", 2, "schema_version", "Input should be 1"),
    ("gpu.count", "128", "gpu.count", "valid integer"),
    ("model", ..., "model", "required"),
    ("status", "excellent", "status", "'predicted', 'measured', 'verified' or 'reference'"),
    ("result.measured", "last week", "result.measured", "valid date"),
    ("stack.pytorch", 2.1, "stack.pytorch", "valid string"),
    ("result.mfu", 1.27, "result.mfu", "less than or equal to 1"),
    ("layout.label", "TP4 PP16 EP16 DP2", "layout.label", "the degrees give `TP4 PP16 EP8 DP2`"),
    ("layout.dp", 4, "layout.dp", "128 GPUs / (TP x PP x CP = 64) is 2"),
    ("layout.ep", 48, "layout.ep", "must divide the 160 experts of GLM-4.5"),
    ("layout.layer_split.first", 6, "layout.layer_split", "83 remain for 14 other stages"),
    ("layout.layer_split", None, "layout.layer_split", "92 remain for 16 stages"),
    ("layout.vpp", 4, "layout.layer_split", "14 other stages of 4 chunks"),
    ("layout.max_tokens_per_gpu", 16384, "layout.rows_per_microbatch", "hold 2 rows of 8192"),
    ("layout.rows_per_microbatch", 2, "layout.rows_per_microbatch", "hold 1 rows of 8192"),
    ("layout.summary", SUMMARY.replace("EP 8", "EP 4"), "layout.summary", "layout.ep is 8"),
    ("layout.summary", SUMMARY.replace("stage 3", "stage 4"), "layout.summary", "last is 3"),
    ("layout.highlights", "PP 16, full recompute", "layout.highlights", "says no recompute"),
    ("layout.highlights", "PP 8, no recompute", "layout.highlights", "layout.pp is 16"),
    ("result.window", [5, 20], "result.window", "steps 0 to 19"),
    ("result.window", [4, 19], "result.window_tokens", "16 steps of 1048576 tokens are 16777216"),
    ("result.window_tokens", 15_000_000, "result.window_tokens", "are 15728640"),
    ("result.tokens_per_s_per_gpu", 665.44, "result.mfu", "is 0.1326"),
    ("result.active_params.count", 355_000_000_000, "result.mfu", "is 1.2178"),
    ("result.active_params", None, "result.active_params", "MFU needs"),
    ("result.usd_per_million_tokens", 3.49, "result.usd_per_million_tokens", "is 3.89"),
    ("result.gpu_hours", 0.4, "result.gpu_hours", "the timed window alone takes 7.73"),
    (
        "run",
        RUN.replace("model-parallel-size 16", "model-parallel-size 8"),
        "run",
        "layout.pp is 16",
    ),
    ("run", RUN.replace("num-nodes 16", "num-nodes 8"), "run", "gpu.count is 128 at 8 per node"),
    ("run", RUN.replace("FI_PROVIDER=efa", "FI_PROVIDER=tcp"), "run", "env.FI_PROVIDER is 'efa'"),
    ("correctness", None, "correctness", "shows how it was verified"),
    ("correctness.result", "fail", "correctness.result", "has passed its checks"),
    ("correctness.convergence", None, "correctness.convergence", "has compared its loss curve"),
    ("correctness.configuration", "not run", "correctness.configuration", "result says pass"),
    (
        "correctness.convergence.correlation",
        0.91,
        "correctness.convergence.correlation",
        "0.95 to 1",
    ),
    (
        "correctness.convergence.pointwise_failures",
        2,
        "correctness.convergence.pointwise_failures",
        "at most 1.6 of 16",
    ),
    ("status", "predicted", "status", "measured on 2026-10-21"),
    ("result.measured", None, "result.measured", "the day of its run"),
]


@pytest.mark.parametrize(
    ("field", "value", "blamed", "reason"), DAMAGES, ids=[f"{d[0]}-{d[3][:24]}" for d in DAMAGES]
)
def test_a_damage_is_refused_for_its_own_reason(
    field: str, value: Any, blamed: str, reason: str
) -> None:
    problems = check_recipe(_damaged(GLM45, field, value))
    assert any(p.field == blamed and reason in p.reason for p in problems), problems


def test_each_damage_has_a_reason_of_its_own() -> None:
    assert len({(blamed, reason) for _, _, blamed, reason in DAMAGES}) == len(DAMAGES)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("layout.offload.optimizer_fraction", 0.5, "fraction of 0.5"),
        ("layout.recompute", None, "says no recompute"),
        ("layout.cp", 3, "must divide"),
        ("correctness.component_tests.0.result", "fail", "correctness.result says pass"),
        ("gpu.per_node", 6, "nodes hold 6"),
    ],
)
def test_damages_of_a_recipe_with_offload(field: str, value: Any, reason: str) -> None:
    problems = check_recipe(_damaged(GLM52, field, value))
    assert any(reason in p.reason for p in problems), problems


@pytest.mark.parametrize("data", [None, [], "recipe", 3, {}])
def test_what_is_no_recipe_is_refused_without_an_exception(data: Any) -> None:
    assert check_recipe(data)


def test_a_recipe_cannot_make_us_read_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret.yaml"
    secret.write_text("layers: 2\n")
    for field in ("model", "gpu.type"):
        damaged = _damaged(GLM45, field, str(secret))
        assert not any("secret" in p.expectation for p in check_recipe(damaged))


def test_unknown_hardware_and_models_are_judged_as_far_as_can_be() -> None:
    other = _damaged(_damaged(GLM45, "model", "Some-New-Model"), "gpu.type", "Z9000")
    assert check_recipe(other) == []
