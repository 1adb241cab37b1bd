"""The named checks of a candidate arm's curves against the reference arm's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from attune.recipe.schema import Check
from attune.trial.result import TrialResult
from attune.verify.convergence import PIPELINE, ConvergenceResult, validate_convergence
from attune.verify.drift import check_drift
from attune.verify.noise import Floor, norms, relative

CURVES = ("megatron_bridge", "layout_bound", "gradient_norm", "drift")
"""The checks of curves, which run only on curves that are complete."""


def check_convergence(
    candidate: TrialResult, reference: TrialResult, floor: Floor | None
) -> tuple[Check, ...]:
    """`complete` and the checks of `CURVES`, in that order.

    All but the first do not run on curves that are not complete, since Megatron-Bridge's check
    lets NaN and missing steps pass. Those against a noise floor need one.
    """
    complete = check_complete(candidate, reference)
    if complete.status != "passed":
        return complete, *not_run(CURVES, "the loss curves are not complete")
    ours, theirs = _losses(candidate), _losses(reference)
    bridge = check_megatron_bridge(ours, theirs)
    if floor is None:
        why = "no noise floor is known for arms of this precision"
        return complete, bridge, *not_run(CURVES[1:], why)
    return (
        complete,
        bridge,
        check_within("layout_bound", "loss", ours, theirs, floor.loss, floor.why),
        _check_norms(candidate, reference, floor),
        check_drift(ours, theirs, floor.loss),
    )


def not_run(names: Sequence[str], why: str) -> tuple[Check, ...]:
    """Checks that did not run, for one reason."""
    return tuple(Check(name=name, status="not run", detail=why) for name in names)


def check_complete(candidate: TrialResult, reference: TrialResult) -> Check:
    """Both arms completed, have every step exactly once and in order, and finite losses.

    A reference that did not complete is no fault of the candidate: the check has then not run.
    """
    ours, theirs = _fault(candidate), _fault(reference)
    if not ours and reference.outcome != "completed":
        why = f"no reference could run: it {theirs}, so nothing can be verified against it"
        return not_run(["complete"], why)[0]
    faults = [f"candidate arm: {ours}"] if ours else []
    faults += [f"reference arm: {theirs}"] if theirs else []
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
    if seen != sorted(seen):
        return "its steps are out of order"
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


def _check_norms(candidate: TrialResult, reference: TrialResult, floor: Floor) -> Check:
    ours, theirs = norms(candidate), norms(reference)
    known = [x for x in (*ours, *theirs) if x is not None and math.isfinite(x)]
    if len(known) < len(ours) + len(theirs):
        return not_run(["gradient_norm"], "the arms do not log the gradient norm of every step")[0]
    first, second = [x or 0.0 for x in ours], [x or 0.0 for x in theirs]
    return check_within("gradient_norm", "gradient norm", first, second, floor.norm, floor.why)


def check_within(
    name: str,
    quantity: str,
    candidate: Sequence[float],
    reference: Sequence[float],
    bounds: Sequence[float],
    why: str,
) -> Check:
    """Whether `quantity` stays within the noise floor of the reference arm's at every step."""
    differences = [abs(relative(c, r)) for c, r in zip(candidate, reference, strict=True)]
    shares = [difference / bound for difference, bound in zip(differences, bounds)]
    worst = max(range(len(shares)), key=shares.__getitem__)
    over = [i for i, share in enumerate(shares) if share > 1]
    return Check(
        name=name,
        status="failed" if over else "passed",
        detail=f"worst at step {worst + 1}: relative {quantity} difference "
        f"{differences[worst]:.2g} against {bounds[worst]:.2g} ({why})"
        + (f"; first over it at step {over[0] + 1}" if over else ""),
        values={
            "worst_step": worst + 1,
            "worst_share": shares[worst],
            "steps_over": len(over),
            "first_difference": differences[0],
            "last_difference": differences[-1],
        },
    )
