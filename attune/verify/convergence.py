"""Megatron-Bridge's `validate_convergence`, to the letter, holes included.

Source: NVIDIA-NeMo/Megatron-Bridge, scripts/performance/utils/evaluate.py. It compares with `>` and
`<` alone, so a curve of NaN passes; `attune.verify.checks` refuses such curves before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attune.recipe.thresholds import FUNCTION_DEFAULTS, PIPELINE

__all__ = ["FUNCTION_DEFAULTS", "PIPELINE", "ConvergenceResult", "validate_convergence"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvergenceResult:
    """What the check finds; figures are over the points that are left after the skipped ones."""

    passed: bool
    failed_metrics: tuple[str, ...]
    """Out of `correlation`, `point_wise_tolerance`, `final_loss`, `outliers`."""
    correlation: float
    """Pearson's r of the curves; NaN where one is constant."""
    point_wise_failures: int
    total_points: int
    final_loss_current: float
    final_loss_golden: float
    final_loss_difference: float
    """Relative to the golden final loss."""
    outlier_count: int
    outlier_ratio: float


def validate_convergence(
    current: Sequence[float],
    golden: Sequence[float],
    steps: Sequence[int],
    thresholds: Mapping[str, float] = PIPELINE,
) -> ConvergenceResult:
    """Compares the loss curve `current` with `golden`, both aligned to `steps`.

    Missing losses are NaN, which the original lets pass.

    Raises:
        ValueError: the three differ in length, or are empty.
    """
    if not len(current) == len(golden) == len(steps) > 0:
        raise ValueError(f"curves of {len(current)}, {len(golden)}, {len(steps)} points")
    skipped = max(0, int(len(steps) * thresholds["skip_first_percent_loss"]))
    ours = np.asarray(current, dtype=np.float64)[skipped:]
    theirs = np.asarray(golden, dtype=np.float64)[skipped:]
    with np.errstate(all="ignore"):
        correlation = _correlation(ours, theirs)
        failures = int(np.sum(_relative(ours, theirs) > _tolerances(theirs, thresholds)))
        final = _final_difference(float(ours[-1]), float(theirs[-1]))
        outliers = _outliers(ours - theirs, thresholds["outlier_threshold"])
    points, ratio = len(ours), thresholds["max_outlier_ratio"]
    broken = {
        "correlation": correlation < thresholds["correlation_threshold"],
        "point_wise_tolerance": failures > 0 and failures / points > ratio,
        "final_loss": final > thresholds["final_loss_tolerance"],
        "outliers": outliers / points > ratio,
    }
    return ConvergenceResult(
        passed=not any(broken.values()),
        failed_metrics=tuple(name for name, failed in broken.items() if failed),
        correlation=correlation,
        point_wise_failures=failures,
        total_points=points,
        final_loss_current=float(ours[-1]),
        final_loss_golden=float(theirs[-1]),
        final_loss_difference=final,
        outlier_count=outliers,
        outlier_ratio=outliers / points,
    )


def _correlation(current: Floats, golden: Floats) -> float:
    """Pearson's r; NaN for a single point, as in the original, but without its warning."""
    return float(np.corrcoef(current, golden)[0, 1]) if len(current) > 1 else float("nan")


def _tolerances(golden: Floats, thresholds: Mapping[str, float]) -> Floats:
    """Tolerance of each point by its golden loss: over 2.0, over 0.5, or below."""
    low, medium = thresholds["low_loss_tolerance"], thresholds["medium_loss_tolerance"]
    high = thresholds["high_loss_tolerance"]
    chosen: Floats = np.where(golden > 2.0, high, np.where(golden > 0.5, medium, low))
    return chosen


def _relative(current: Floats, golden: Floats) -> Floats:
    difference: Floats = np.where(
        golden == 0, np.abs(current), np.abs(current - golden) / np.abs(golden)
    )
    return difference


def _final_difference(current: float, golden: float) -> float:
    """The denominator keeps its sign, as in the original."""
    return abs(current) if golden == 0 else abs(current - golden) / golden


def _outliers(residuals: Floats, sigmas: float) -> int:
    far = np.abs(residuals - np.mean(residuals)) > sigmas * np.std(residuals)
    return int(np.sum(far))
