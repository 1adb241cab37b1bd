"""The probability that a layout fits, and the interval of its peak, learnt from measurements.

A predicted peak misses the measured one by a factor. Its log over the row's deviation (`sigma`) is
the standardised residual; `RESIDUALS` are quantiles of those of published peaks. The probability to
fit is the share of residuals that would still stay below the memory of the GPU (a conformal
predictive distribution), so no margin is chosen by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attune.layout.table import Floats

STATED_SIGMA = 0.045
"""Log deviation of device use for a fully specified dense job (allocator within 1 to 2 %, what
lies outside it within about 4 %)."""

ROUTING_SIGMA = 0.05
"""More of it where natural routing decides how many tokens an expert gets."""

_LOWER_TAIL, _UPPER_TAIL = 1.0, 2.0
"""Deviations over which a tail beyond the last residual falls by e. A few groups of measurements
say nothing of rarer cases, so certainty grows slowly; above more so: fragmentation only adds."""


@dataclass(frozen=True, kw_only=True)
class Residuals:
    """Quantiles of standardised residuals."""

    levels: tuple[float, ...]
    values: tuple[float, ...]
    """Increasing, one a level."""

    def share_below(self, z: Floats) -> Floats:
        """Share of residuals below `z`."""
        levels, values = np.array(self.levels), np.array(self.values)
        inside = np.interp(z, values, levels)
        low = levels[0] * np.exp(np.minimum(z - values[0], 0.0) / _LOWER_TAIL)
        high = 1 - (1 - levels[-1]) * np.exp(-np.maximum(z - values[-1], 0.0) / _UPPER_TAIL)
        share: Floats = np.where(z < values[0], low, np.where(z > values[-1], high, inside))
        return share

    def quantile(self, level: float) -> float:
        """The residual at a level within the known ones."""
        return float(np.interp(level, self.levels, self.values))


LEVELS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9)
"""Levels kept; the outermost residual of n groups stands at n / (n + 1)."""

RESIDUALS = Residuals(
    levels=(*LEVELS, 0.9375),
    values=(-0.768, -0.477, -0.098, 0.292, 0.451, 0.505, 0.875, 1.205, 1.286),
)
"""Device use and reserved memory of 15 models, each counted as one (`python -m
benchmarks.residuals`): MooreThreads/SimuMax, BigScience, Sailor, ms-swift."""


def learn_residuals(residuals: Sequence[float], groups: Sequence[str]) -> Residuals:
    """Quantiles of residuals in which every group has the same weight."""
    counts = {name: groups.count(name) for name in set(groups)}
    order = np.argsort(residuals, kind="stable")
    weight = np.array([1.0 / counts[groups[i]] for i in order])
    place = (np.cumsum(weight) - weight / 2) / weight.sum()
    values = np.array(residuals)[order]
    levels = (*LEVELS, max(LEVELS[-1] + 0.01, len(counts) / (len(counts) + 1)))
    found = np.maximum.accumulate(np.interp(levels, place, values))
    found = found + 1e-3 * np.arange(len(found))
    return Residuals(levels=levels, values=tuple(np.round(found, 3).tolist()))


def probability(
    limit_gib: float, device_gib: Floats, sigma: Floats, residuals: Residuals = RESIDUALS
) -> Floats:
    """P(fits) of peaks with these log deviations, shaped like `device_gib`."""
    return residuals.share_below(np.log(limit_gib / np.maximum(device_gib, 1e-9)) / sigma)
