from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from attune.catalog import load_cluster, load_model
from attune.layout import Layout
from attune.recipe import (
    Check,
    Gains,
    Predictions,
    Recipe,
    build_recipe,
    check_recipe,
    dump_recipe,
    layout_of,
)
from attune.recipe.files import parse_text
from attune.trial.result import RankMemory, Step, TrialResult
from attune.workload import Workload

DAY = date(2026, 11, 30)
WINNER = Layout(tp=4, pp=16, ep=8, first=5, last=3, sequence_parallel=True)
FIGURES = {
    "steps": 20,
    "correlation": 0.9999,
    "final_loss_difference": 0.0011,
    "point_wise_failures": 0,
}
PASSED = (
    Check(name="configuration", status="passed"),
    Check(name="complete", status="passed"),
    Check(name="megatron_bridge", status="passed", detail="correlation 0.9999", values=FIGURES),
    Check(name="layout_bound", status="not run", detail="bf16 arms", needed=False),
)


def _result(step_s: float = 14.49, gpus: int = 128, **fields: Any) -> TrialResult:
    values: dict[str, Any] = {
        "outcome": "completed",
        "steps": tuple(Step(step=i, seconds=step_s, loss=5.0) for i in range(20)),
        "ranks": (RankMemory(rank=0, stage=0, allocated_gib=90.0, reserved_gib=95.123),),
        "steps_asked": 20,
        "tokens_per_step": 8192 * 128,
        "gpus": gpus,
        "wall_s": 1000.0,
        "provenance": "measured",
        "hardware": "h200",
        "launcher": "slurm",
    }
    return TrialResult(**(values | fields))


def _build(**fields: Any) -> Recipe:
    values: dict[str, Any] = {
        "model": load_model("glm-4.5"),
        "cluster": load_cluster("h200", 128),
        "workload": Workload(),
        "layout": WINNER,
        "result": _result(),
        "provenance": "verified",
        "checks": PASSED,
        "reference": "Megatron-Bridge's recipe",
        "command": "torchrun --nnodes 16 -m attune.trial.worker\n",
        "stack": {"framework": "megatron-core 0.16.1"},
        "environment": {"CUDA_DEVICE_MAX_CONNECTIONS": "1"},
        "notes": ["PP 16 keeps each stage in a node: trial 3 against trial 1. " * 3, "Second."],
        "measured": DAY,
    }
    return build_recipe(**(values | fields))


def test_a_verified_recipe_is_sound_and_reads_back() -> None:
    recipe = _build(
        predictions=Predictions(step_time_s=14.0, peak_gib=100.0),
        gains=Gains(over_reference_percent=152.0),
        experiment="glm-4.5-h200-1",
    )
    assert check_recipe(recipe) == []
    assert Recipe.model_validate(parse_text(dump_recipe(recipe))) == recipe
    assert layout_of(recipe) == WINNER
    result, correctness = recipe.result, recipe.correctness
    assert result is not None and correctness is not None
    assert (result.tokens_per_s_per_gpu, result.usd_per_million_tokens) == (565.36, 3.89)
    assert (result.mfu, result.measured, result.gpu_hours) == (0.1127, DAY, 35.56)
    assert (correctness.result, correctness.configuration) == ("pass", "pass")
    assert correctness.convergence is not None and correctness.convergence.correlation == 0.9999
    assert [c.status for c in correctness.checks] == ["passed", "passed", "passed", "not run"]
    assert recipe.attune is not None and recipe.attune.peak_reserved_gib == 95.12


def test_notes_are_wrapped_points() -> None:
    lines = (_build().notes or "").splitlines()
    assert [line[:2] for line in lines] == ["- ", "  ", "- "]
    assert max(map(len, lines)) <= 116


def test_a_simulated_recipe_is_predicted_and_none_of_its_checks_ran() -> None:
    simulated = _result(provenance="predicted", hardware="virtual h200", launcher="simulated")
    recipe = _build(result=simulated, provenance="predicted")
    assert check_recipe(recipe) == []
    assert recipe.status == "predicted"
    assert recipe.result is not None and recipe.result.measured is None
    assert recipe.correctness is not None and recipe.correctness.result == "not run"
    assert {check.status for check in recipe.correctness.checks} == {"not run"}
    assert "on simulated curves: passed" in recipe.correctness.checks[0].detail
    assert recipe.attune is not None and recipe.attune.hardware == "virtual h200"


def test_a_failed_check_shows_in_a_measured_recipe() -> None:
    failed = Check(name="layout_bound", status="failed", detail="step 2")
    recipe = _build(provenance="measured", checks=(*PASSED[:3], failed))
    assert check_recipe(recipe) == []
    assert recipe.correctness is not None
    assert recipe.correctness.result == "fail"
    assert recipe.correctness.summary == "failed: layout_bound"


def test_a_needed_check_that_did_not_run_is_named() -> None:
    missing = Check(name="component.fp8", status="not run")
    recipe = _build(provenance="measured", checks=(*PASSED, missing))
    assert recipe.correctness is not None
    assert recipe.correctness.summary == "not run: component.fp8"
    assert recipe.correctness.result == "not run"
    with pytest.raises(ValueError, match=r"component\.fp8"):
        _build(checks=(*PASSED, missing))


def test_nothing_is_claimed_that_was_not_shown() -> None:
    simulated = _result(provenance="predicted")
    for fields in (
        {"result": simulated},
        {"result": simulated, "provenance": "measured"},
        {"measured": None},
        {"checks": ()},
    ):
        with pytest.raises(ValueError, match="recipe"):
            _build(**fields)


def test_a_recipe_of_this_machine_says_cpu() -> None:
    model = load_model("tiny-moe")
    workload = Workload(precision="fp32", row_tokens=128, global_batch=16)
    result = _result(0.5, 4, hardware="cpu", launcher="local", tokens_per_step=2048)
    recipe = _build(
        model=model,
        cluster=load_cluster("cpu", 4),
        workload=workload,
        layout=Layout(tp=2, pp=2, sequence_parallel=True),
        result=result,
        command="bash command.sh",
    )
    assert check_recipe(recipe) == []
    assert recipe.gpu.type == "cpu" and recipe.attune is not None
    assert recipe.attune.hardware == "cpu"
    assert recipe.result is not None
    assert recipe.result.tokens_per_s_per_gpu == 1024.0
    assert recipe.result.mfu is None and recipe.result.usd_per_million_tokens is None


def test_recompute_modules_overlaps_and_explicit_layouts_survive() -> None:
    layout = replace(
        WINNER,
        first=None,
        last=None,
        pp=4,
        pipeline_layout="E" + "t" * 23 + ("|" + "t" * 23) * 3 + "L",
        recompute="selective",
        recompute_modules=("core_attn", "moe"),
        overlap_gradients=True,
        optimizer_offload=0.25,
        precision_aware_optimizer=True,
    )
    recipe = _build(layout=layout, provenance="measured")
    assert check_recipe(recipe) == []
    assert layout_of(Recipe.model_validate(parse_text(dump_recipe(recipe)))) == layout


@pytest.mark.parametrize(
    "text",
    [
        "'; rm -rf / #",
        "<script>alert(1)</script>",
        "a: b\n- c",
        "$(reboot)",
        "=1+1",
        "\ttab",
        "é 中 \U0001f600",
    ],
)
def test_hostile_text_stays_text(text: str) -> None:
    recipe = _build(
        reference=text, notes=[text], author=text, environment={"X": text}, command=text
    )
    again = Recipe.model_validate(parse_text(dump_recipe(recipe)))
    assert again == recipe
