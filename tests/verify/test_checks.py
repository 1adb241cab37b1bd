from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attune.catalog import load_cluster, load_model
from attune.layout import Layout
from attune.recipe.schema import Check
from attune.trial.job import Job
from attune.trial.result import Step, TrialResult
from attune.verify import (
    Verification,
    check_configuration,
    check_convergence,
    layout_bound,
    needed_checks,
    noise_floor,
    verdict,
    verify,
)
from attune.verify.checks import CURVES
from attune.verify.verdict import PROVES_NOTHING
from attune.workload import Optimization, Workload

CASES = Path(__file__).parents[1] / "cases"
FLOAT32 = Workload(precision="fp32", row_tokens=128, global_batch=16)
BFLOAT16 = FLOAT32.model_copy(update={"precision": "bf16"})
CURVE = [6.0 - 0.05 * i for i in range(20)]
JOB = Job(
    model=load_model("tiny-moe"),
    cluster=load_cluster("cpu", 4),
    workload=FLOAT32,
    layout=Layout(tp=2, pp=2, sequence_parallel=True),
)
REFERENCE = replace(JOB, layout=Layout(ep=2))


def _arm(losses: Sequence[float | None], **fields: Any) -> TrialResult:
    steps = tuple(Step(step=i, seconds=1.0, loss=x, grad_norm=2.0) for i, x in enumerate(losses))
    values: dict[str, Any] = {
        "outcome": "completed",
        "steps": steps,
        "steps_asked": 20,
        "tokens_per_step": 2048,
        "gpus": 4,
        "wall_s": 30.0,
        "provenance": "measured",
        "hardware": "cpu",
        "launcher": "local",
    }
    return TrialResult(**(values | fields))


def _detail(result: Verification, name: str) -> str:
    return next(check.detail for check in result.checks if check.name == name)


def _status(checks: Sequence[Check]) -> dict[str, str]:
    return {check.name: check.status for check in checks}


def test_rounding_differences_pass_and_the_run_is_verified() -> None:
    other = [x * (1 + 0.5 * (-1) ** i * layout_bound(i + 1)) for i, x in enumerate(CURVE)]
    result = verify(JOB, _arm(other), REFERENCE, _arm(CURVE))
    not_run = {c.name for c in result.checks if c.status != "passed"}
    # Nothing rests on these: the probe was off, and the reference shares the memory knobs.
    assert not_run == {"parity", "reference_differs"}
    assert (result.provenance, result.failed, result.missing) == ("verified", (), ())


def test_a_learning_rate_two_percent_off_is_caught_by_the_layout_bound() -> None:
    faster = [6.0 - 1.02 * 0.05 * i for i in range(20)]
    result = verify(JOB, _arm(faster), REFERENCE, _arm(CURVE))
    assert result.failed == ("layout_bound", "drift")
    assert result.provenance == "measured"
    assert "first over it at step 2" in _detail(result, "layout_bound")


def test_measured_runs_are_told_apart() -> None:
    curves = json.loads((CASES / "measured_curves.json").read_text(encoding="utf-8"))
    reference, honest = _arm(curves["ep=2"]), _arm(curves["tp=2 pp=2 ep=2"])
    faulty = _arm(curves["tp=2 pp=2 ep=2, learning rate x 1.02"])
    assert verify(JOB, honest, REFERENCE, reference).provenance == "verified"
    result = verify(JOB, faulty, REFERENCE, reference)
    assert "layout_bound" in result.failed
    assert "first over it at step 3" in _detail(result, "layout_bound")


def test_the_bound_grows_from_step_1_to_step_20() -> None:
    assert layout_bound(1) == pytest.approx(1e-5)
    assert layout_bound(20) == pytest.approx(1e-4)
    assert layout_bound(500) == pytest.approx(1e-4)
    ratios = [layout_bound(i + 1) / layout_bound(i) for i in range(1, 20)]
    assert ratios == pytest.approx([10 ** (1 / 19)] * 19)


@pytest.mark.parametrize(
    ("arm", "reason"),
    [
        (_arm([*CURVE[:-1], math.nan]), "candidate arm: loss not finite at step 19"),
        (_arm([math.inf, *CURVE[1:]]), "loss not finite at step 0"),
        (_arm([*CURVE[:5], None, *CURVE[6:]]), "loss not finite at step 5"),
        (_arm([math.nan] * 20), "step 0, 1, 2, 3, 4 and 15 more"),
        (_arm(CURVE[:-1]), "no step 19"),
        (_arm([]), "no step 0, 1, 2, 3, 4 and 15 more"),
        (_arm([*CURVE, 5.0]), "21 steps logged where 20"),
        (
            _arm(CURVE, steps=tuple(Step(step=i % 19, seconds=1, loss=5.0) for i in range(20))),
            "no step 19",
        ),
        (_arm(CURVE, outcome="incomplete"), "ended as incomplete"),
        (_arm([*CURVE, 5.0], steps_asked=21), "asked for 21 and 20 steps"),
    ],
)
def test_what_megatron_bridge_lets_pass_is_refused_before_it(arm: TrialResult, reason: str) -> None:
    result = verify(JOB, arm, REFERENCE, _arm(CURVE))
    status = _status(result.checks)
    assert status["complete"] == "failed"
    assert {status[name] for name in CURVES} == {"not run"}
    assert reason in _detail(result, "complete")
    assert result.provenance == "measured"


def test_bfloat16_arms_have_a_wider_bound() -> None:
    jobs = [replace(job, workload=BFLOAT16) for job in (JOB, REFERENCE)]
    near = verify(jobs[0], _arm([1.0002 * x for x in CURVE]), jobs[1], _arm(CURVE))
    assert near.provenance == "verified"
    far = verify(jobs[0], _arm([1.01 * x for x in CURVE]), jobs[1], _arm(CURVE))
    # Megatron-Bridge's check lets 1 % pass.
    assert far.failed == ("layout_bound", "drift")


def test_arms_of_a_precision_without_a_bound_are_not_verified() -> None:
    jobs = [replace(job, workload=Workload(precision="fp16")) for job in (JOB, REFERENCE)]
    result = verify(jobs[0], _arm(CURVE), jobs[1], _arm(CURVE))
    assert result.missing == ("layout_bound", "gradient_norm", "drift")
    assert result.provenance == "measured"


def test_two_runs_of_the_reference_widen_the_floor_and_never_narrow_it() -> None:
    noisy = _arm([x * 1.0003 for x in CURVE])
    candidate = _arm([x * 1.0005 for x in CURVE])
    assert "layout_bound" in verify(JOB, candidate, REFERENCE, _arm(CURVE)).failed
    with_noise = verify(JOB, candidate, REFERENCE, _arm(CURVE), again=noisy)
    assert "layout_bound" not in with_noise.failed
    same = noise_floor(FLOAT32, JOB.layout, REFERENCE.layout, (_arm(CURVE), _arm(CURVE)))
    alone = noise_floor(FLOAT32, JOB.layout, REFERENCE.layout)
    assert same is not None and alone is not None and same.loss == alone.loss


def test_rows_grouped_otherwise_have_more_room_under_an_auxiliary_loss() -> None:
    balanced = FLOAT32.model_copy(update={"optimization": Optimization(auxiliary_loss=0.01)})
    floor = noise_floor(balanced, Layout(rows_per_microbatch=2), Layout())
    alike = noise_floor(balanced, Layout(tp=2), Layout())
    assert floor is not None and alike is not None
    assert min(floor.loss) == pytest.approx(5e-3) and "grouped otherwise" in floor.why
    assert max(alike.loss) == pytest.approx(1e-4)


def test_a_wrong_scale_of_gradients_is_caught_by_their_norm() -> None:
    steps = tuple(Step(step=i, seconds=1, loss=x, grad_norm=1.0) for i, x in enumerate(CURVE))
    result = verify(JOB, _arm(CURVE, steps=steps), REFERENCE, _arm(CURVE))
    assert result.failed == ("gradient_norm",)


def test_a_small_difference_on_one_side_is_drift() -> None:
    aside = _arm([x * (1 + 2e-5 * (i >= 8)) for i, x in enumerate(CURVE)])
    assert verify(JOB, aside, REFERENCE, _arm(CURVE)).failed == ("drift",)
    swinging = _arm([x * (1 + 9e-6 * (-1) ** i) for i, x in enumerate(CURVE)])
    assert verify(JOB, swinging, REFERENCE, _arm(CURVE)).failed == ()


def test_steps_out_of_order_are_refused() -> None:
    steps = tuple(Step(step=i, seconds=1, loss=5.0, grad_norm=1.0) for i in reversed(range(20)))
    result = verify(JOB, _arm(CURVE, steps=steps), REFERENCE, _arm(CURVE))
    assert result.failed == ("complete",) and "out of order" in _detail(result, "complete")


def test_curves_without_gradient_norms_are_not_verified() -> None:
    steps = tuple(Step(step=i, seconds=1, loss=x) for i, x in enumerate(CURVE))
    result = verify(JOB, _arm(CURVE, steps=steps), REFERENCE, _arm(CURVE))
    assert result.missing == ("gradient_norm",) and result.provenance == "measured"


def test_a_flat_curve_passes_with_no_correlation_rather_than_nan() -> None:
    floor = noise_floor(FLOAT32, Layout(), Layout())
    check = check_convergence(_arm([5.0] * 20), _arm([5.0] * 20), floor)[1]
    assert check.status == "passed" and check.values["correlation"] is None
    result = Verification(checks=(check,), provenance="measured")
    assert Verification.model_validate_json(result.model_dump_json()) == result


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"model": load_model("tiny-dense")}, "model.experts"),
        (
            {"workload": FLOAT32.model_copy(update={"global_batch": 32})},
            "workload.global_batch: 32 against 16",
        ),
        (
            {
                "workload": FLOAT32.model_copy(
                    update={"optimization": Optimization(adam_beta2=0.999)}
                )
            },
            "workload.optimization.adam_beta2: 0.999 against 0.95",
        ),
        (
            {"worker_options": {"learning_rate_scale": "1.02"}},
            "learning_rate_scale: 1.02 against None",
        ),
        ({"framework": "miles"}, "framework: miles"),
    ],
)
def test_the_arms_must_share_all_but_the_layout(change: dict[str, Any], field: str) -> None:
    check = check_configuration(replace(JOB, **change), REFERENCE)
    assert check.status == "failed" and field in check.detail


def test_the_configuration_check_says_what_differs_in_the_layouts() -> None:
    same = check_configuration(JOB, JOB)
    assert same.status == "passed" and "no degree" in same.detail
    recomputed = replace(JOB, layout=Layout(tp=4, recompute="full"))
    assert "differ in tp, pp and in recompute" in check_configuration(recomputed, JOB).detail


def test_a_reference_that_shares_a_knob_says_so() -> None:
    result = verify(JOB, _arm(CURVE), REFERENCE, _arm(CURVE))
    assert "no memory knob, so the comparison" in _detail(result, "reference_differs")
    other = replace(REFERENCE, layout=Layout(ep=2, recompute="full"))
    checks = verify(JOB, _arm(CURVE), other, _arm(CURVE)).checks
    assert _status(checks)["reference_differs"] == "passed"


def test_offload_and_fp8_need_component_tests_that_have_not_run() -> None:
    layout = Layout(optimizer_offload=0.5, precision_aware_optimizer=True)
    job = replace(JOB, layout=layout)
    result = verify(job, _arm(CURVE), REFERENCE, _arm(CURVE))
    needed = ("component.optimizer_offload", "component.precision_aware_optimizer")
    assert result.missing == needed and result.provenance == "measured"
    assert "component.fp8" in needed_checks(Layout(), Workload(precision="fp8"))
    ran = [Check(name=name, status="passed") for name in needed]
    done = verify(job, _arm(CURVE), REFERENCE, _arm(CURVE), components=ran)
    assert done.provenance == "verified"


def test_knobs_that_order_sums_otherwise_are_listed_without_being_needed() -> None:
    job = replace(JOB, layout=Layout(cp=2, ep=2, recompute="full"))
    checks = verify(job, _arm(CURVE), REFERENCE, _arm(CURVE)).checks
    listed = {c.name: c.needed for c in checks if c.name.startswith("component.")}
    assert listed == {
        "component.recompute": False,
        "component.dispatcher": False,
        "component.context_parallel": False,
    }


def test_nothing_but_a_measured_and_fully_checked_run_is_verified() -> None:
    passed = verify(JOB, _arm(CURVE), REFERENCE, _arm(CURVE)).checks
    assert verdict(passed, "measured") == "verified"
    assert verdict(passed, "predicted") == "predicted"
    assert verdict(passed[1:], "measured") == "measured"
    assert verdict((), "measured") == "measured"


def test_checks_of_simulated_curves_prove_nothing_and_say_so() -> None:
    simulated = _arm(CURVE, provenance="predicted")
    for pair in ((simulated, simulated), (_arm(CURVE), simulated), (simulated, _arm(CURVE))):
        result = verify(JOB, pair[0], REFERENCE, pair[1])
        assert (result.provenance, result.note) == ("predicted", PROVES_NOTHING)
        assert {check.status for check in result.checks} == {"not run"}
        assert "on simulated curves: passed" in _detail(result, "layout_bound")
    wrong = _arm([x * 1.2 for x in CURVE], provenance="predicted")
    assert "layout_bound" in verify(JOB, wrong, REFERENCE, simulated).failed
