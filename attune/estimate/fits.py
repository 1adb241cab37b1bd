"""The probability that a layout fits into the memory of its GPU."""

from __future__ import annotations

import math

import numpy as np

from attune.layout.table import Floats

STATED_SIGMA = 0.045
"""Log deviation of device use for a fully specified dense job (allocator within 1 to 2 %, what
lies outside it within about 4 %)."""

ROUTING_SIGMA = 0.05
"""More of it where natural routing decides how many tokens an expert gets."""


def probability(limit_gib: float, device_gib: Floats, sigma: Floats) -> Floats:
    """P(fits) = Phi(ln(limit / device) / sigma), shaped like `device_gib`."""
    scaled = np.log(limit_gib / np.maximum(device_gib, 1e-9)) / sigma
    chance: Floats = normal_cdf(scaled)
    return chance


def normal_cdf(x: Floats) -> Floats:
    """Standard normal distribution function."""
    return 0.5 * (1.0 + _erf(x / math.sqrt(2.0)))


def _erf(x: Floats) -> Floats:
    """Error function to 1.5e-7 (Abramowitz and Stegun 7.1.26)."""
    t = 1.0 / (1.0 + 0.3275911 * np.abs(x))
    series = 1.061405429
    terms = (-1.453152027, 1.421413741, -0.284496736, 0.254829592)
    total = series * t
    for term in terms:
        total = (total + term) * t
    result: Floats = np.sign(x) * (1.0 - total * np.exp(-x * x))
    return result
