"""A paired test for drift: losses that lie apart on one side, step after step."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from attune.recipe.schema import Check
from attune.verify.noise import relative

SIGNIFICANT = 1e-3
"""Level of the paired t-test: one false alarm in a thousand, were steps independent."""
SHARE_OF_FLOOR = 0.1
"""Mean difference, as a share of the mean noise floor, below which a drift is let be.

Two layouts differ by the same rounding at every step, so a test alone would call honest pairs
different; `docs/verification.md` has what pairs show.
"""


def check_drift(
    candidate: Sequence[float], reference: Sequence[float], bounds: Sequence[float]
) -> Check:
    """Whether the loss lies to one side of the reference arm's over the last three quarters.

    Fails where a paired t-test is sure of it and the mean difference is no rounding.
    """
    first = math.ceil(len(reference) / 4)
    pairs = list(zip(candidate, reference, strict=True))[first:]
    apart = np.array([relative(ours, theirs) for ours, theirs in pairs])
    mean, deviation = float(apart.mean()), float(apart.std(ddof=1)) if len(apart) > 1 else 0.0
    share = abs(mean) / float(np.mean(bounds[first:]))
    chance = chance_of(mean, deviation, len(apart))
    drifts = chance < SIGNIFICANT and share > SHARE_OF_FLOOR
    return Check(
        name="drift",
        status="failed" if drifts else "passed",
        detail=f"mean relative loss difference {mean:.2g} over the last {len(apart)} steps, "
        f"{share:.2g} of the noise floor ({SHARE_OF_FLOOR} allowed); paired test p = {chance:.2g}",
        values={
            "mean_difference": mean,
            "standard_deviation": deviation,
            "share_of_floor": share,
            "p": chance,
        },
    )


def chance_of(mean: float, deviation: float, count: int) -> float:
    """Two-sided p of a paired t-test that the mean difference is zero."""
    if count < 2 or mean == 0.0:
        return 1.0
    if deviation == 0.0:
        return 0.0
    from scipy.stats import t

    statistic = abs(mean) / (deviation / math.sqrt(count))
    return float(2 * t.sf(statistic, count - 1))
