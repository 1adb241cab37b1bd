"""The named checks of a candidate arm's loss curve against the reference arm's."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from attune.recipe.schema import Check
from attune.trial.result import TrialResult
from attune.verify.convergence import PIPELINE, ConvergenceResult, validate_convergence
from attune.workload import Workload

BOUND_AT_FIRST_STEP = 1e-5
BOUND_AT_LAST_STEP = 1e-4
BOUND_STEPS = 20
"""Room for rounding on devices that add in another order from run to run.

Measured on CPU (float32, tiny-moe, 20 steps): layouts alone differ by at most 1.4e-8, and a
learning rate 2 % off by 2.5e-4 at step 3 and about 3e-3 from step 9 on.
"""


def check_convergence(
    candidate: TrialResult, reference: TrialResult, workload: Workload
) -> tuple[Check, ...]:
    """`complete`, `megatron_bridge` and `layout_bound` of the two arms, in that order.

    The last two do not run on curves that are not complete, since Megatron-Bridge's check lets
    NaN and missing steps pass.
    """
    complete = check_complete(candidate, reference)
    if complete.status != "passed":
        why = "the loss curves are not complete"
        return (
            complete,
            Check(name="megatron_bridge", status="not run", detail=why),
            Check(name="layout_bound", status="not run", detail=why, needed=_exact(workload)),
        )
    ours, theirs = _losses(candidate), _losses(reference)
    return complete, check_megatron_bridge(ours, theirs), check_layout_bound(ours, theirs, workload)


def check_complete(candidate: TrialResult, reference: TrialResult) -> Check:
    """Both arms completed, have every step exactly once, and a finite loss at each."""
    faults = []
    for name, arm in (("candidate arm", candidate), ("reference arm", reference)):
        fault = _fault(arm)
        faults += [f"{name}: {fault}"] if fault else []
    if candidate.steps_asked != reference.steps_asked:
        lengths = f"{candidate.steps_asked} and {reference.steps_asked}"
        faults.append(f"the arms were asked for {lengths} steps, with different schedules")
    detail = "; ".join(faults) or f"{candidate.steps_asked} finite losses in both arms"
    return Check(name="complete", status="failed" if faults else "passed", detail=detail)


def _fault(arm: TrialResult) -> str:
    """What is wrong with the loss curve of one arm; empty when nothing is."""
    if arm.outcome != "completed":
        return f"ended as {arm.outcome}"
    seen = [step.step for step in arm.steps]
    missing = sorted(set(range(arm.steps_asked)) - set(seen))
    if missing:
        return f"no step {_some(missing)}"
    if len(seen) != len(set(seen)) or len(seen) != arm.steps_asked:
        return f"{len(seen)} steps logged where {arm.steps_asked} were asked for"
    lost = [s.step for s in arm.steps if s.loss is None or not math.isfinite(s.loss)]
    return f"loss not finite at step {_some(lost)}" if lost else ""


def _some(steps: list[int]) -> str:
    return ", ".join(map(str, steps[:5])) + (f" and {len(steps) - 5} more" if steps[5:] else "")


def _losses(arm: TrialResult) -> list[float]:
    return [loss for loss in arm.losses if loss is not None]


def check_megatron_bridge(candidate: list[float], reference: list[float]) -> Check:
    """Megatron-Bridge's `validate_convergence` with the thresholds of its pipeline."""
    result = validate_convergence(candidate, reference, range(len(reference)), PIPELINE)
    figures = (
        f"correlation {result.correlation:.7g}, "
        f"final loss difference {result.final_loss_difference:.2g}, "
        f"{result.point_wise_failures} pointwise failures over {len(reference)} steps"
    )
    failed = f"failed {', '.join(result.failed_metrics)}: " if result.failed_metrics else ""
    return Check(
        name="megatron_bridge",
        status="passed" if result.passed else "failed",
        detail=failed + figures,
        values=_values(result) | {"steps": len(reference)},
    )


def _values(result: ConvergenceResult) -> dict[str, Any]:
    """The figures as plain data; NaN (the correlation of a flat curve) becomes None."""
    values = asdict(result) | {"failed_metrics": list(result.failed_metrics)}
    return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in values.items()}


def layout_bound(number: int) -> float:
    """Largest relative loss difference that a change of layout may show at step `number` (1, ...).

    Linear in the step on a log scale, from 1e-5 at step 1 to 1e-4 at step 20, and 1e-4 after:
    rounding differences grow as training amplifies them.
    """
    share = min((number - 1) / (BOUND_STEPS - 1), 1.0)
    return BOUND_AT_FIRST_STEP * (BOUND_AT_LAST_STEP / BOUND_AT_FIRST_STEP) ** share


def check_layout_bound(candidate: list[float], reference: list[float], workload: Workload) -> Check:
    """Whether every loss is within `layout_bound` of the reference arm's; float32 arms only."""
    if not _exact(workload):
        return Check(
            name="layout_bound",
            status="not run",
            detail=f"the bound is known for float32 arms, and these are {workload.precision}",
            needed=False,
        )
    differences = [abs(c - r) / abs(r or 1.0) for c, r in zip(candidate, reference, strict=True)]
    shares = [d / layout_bound(i + 1) for i, d in enumerate(differences)]
    worst = max(range(len(shares)), key=shares.__getitem__)
    over = [i for i, share in enumerate(shares) if share > 1]
    return Check(
        name="layout_bound",
        status="failed" if over else "passed",
        detail=f"worst at step {worst + 1}: relative loss difference {differences[worst]:.2g} "
        f"against a bound of {layout_bound(worst + 1):.2g}"
        + (f"; first over it at step {over[0] + 1}" if over else ""),
        values={"worst_step": worst + 1, "worst_share": shares[worst], "steps_over": len(over)},
    )


def _exact(workload: Workload) -> bool:
    return workload.precision == "fp32"
