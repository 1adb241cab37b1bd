"""Named multipliers of the estimates, learnt from measured trials."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attune.errors import AttuneError
from attune.layout.table import Bools, Floats

NAMES = ("compute", "tensor", "expert", "data", "pipeline", "host", "memory")
"""Multipliers of the time by part, and of the memory."""

PRIOR_SIGMA = (0.25, 0.35, 0.6, 0.5, 0.25, 0.5, 0.06)
"""Prior standard deviations in log space. Source: leave-one-group-out errors of the model on
published measurements: raw 10 to 30 %, memory a few percent."""

TIME_NOISE = 0.06
"""Log deviation of a layout's step time that no multiplier explains (layouts of one published
calibration scatter by 4 to 11 %)."""

MEMORY_NOISE = 0.02
"""The same for the peak of memory (ranks of one stage differ by up to 4 % in reserved)."""

_ROBUST = 2.0
"""Innovations beyond so many deviations count as noisier in proportion (Huber)."""

_FARTHEST = 7.0
"""Largest log of a multiplier (a factor of 1,000) that is not taken for damage."""

MULTIPLIER_OF = {
    "compute": "compute",
    "attention": "compute",
    "tensor": "tensor",
    "context": "tensor",
    "expert": "expert",
    "host": "host",
    "transfer": "pipeline",
    "data": "data",
    "optimizer": "compute",
    "offload": "host",
    "fixed": "host",
}
"""Multiplier of each part of the time; the bubble has that of the pipeline and of the stage."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """One measured trial beside what was predicted for it."""

    parts: Mapping[str, float]
    """Predicted parts of the step time, seconds."""
    predicted_s: float
    measured_s: float | None = None
    predicted_gib: float
    measured_gib: float | None = None
    """Peak of the same kind as predicted (reserved against reserved)."""
    layers_measured: bool = False
    """The layers' times were a probe's, so the surprise is none of their multipliers'."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Gaussian belief about the log of each multiplier."""

    mean: tuple[float, ...] = (0.0,) * len(NAMES)
    covariance: tuple[tuple[float, ...], ...] = tuple(
        tuple(sigma**2 if i == j else 0.0 for j in range(len(NAMES)))
        for i, sigma in enumerate(PRIOR_SIGMA)
    )
    observations: int = 0

    def multiplier(self, name: str) -> float:
        """The factor by which estimates of that name are multiplied."""
        return float(np.exp(self.mean[NAMES.index(name)]))

    def part_multiplier(self, part: str) -> float:
        """The factor of a part of the step time."""
        return self.multiplier(MULTIPLIER_OF[part])

    def time_sigma(self, shares: Floats) -> Floats:
        """Log deviation of step times whose parts have these shares [n, names]."""
        variance = np.einsum("ni,ij,nj->n", shares, np.array(self.covariance), shares)
        sigma: Floats = np.sqrt(np.maximum(variance, 0.0) + TIME_NOISE**2)
        return sigma

    @property
    def memory_sigma(self) -> float:
        """Log deviation of the memory multiplier."""
        place = NAMES.index("memory")
        return float(self.covariance[place][place] ** 0.5)

    def as_data(self) -> dict[str, Any]:
        """Plain numbers and lists, for a file; `of_data` reads them back."""
        covariance = [list(line) for line in self.covariance]
        return {
            "names": list(NAMES),
            "mean": list(self.mean),
            "covariance": covariance,
            "observations": self.observations,
        }

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> Calibration:
        """The calibration that `as_data` wrote.

        Raises:
            AttuneError: other multipliers, or numbers that are no belief about them.
        """
        if data.get("names") != list(NAMES):
            raise AttuneError(
                f"a calibration holds the multipliers {', '.join(NAMES)}, but the data has "
                f"{reprlib.repr(data.get('names'))}; calibrate again"
            )
        mean, covariance = _floats(data.get("mean")), _floats(data.get("covariance"))
        number = data.get("observations")
        counted = isinstance(number, int) and not isinstance(number, bool) and number >= 0
        if not counted or not _is_belief(mean, covariance):
            raise AttuneError(
                f"a calibration holds {len(NAMES)} means within {_FARTHEST}, their covariance and "
                "the number of observations, but the data does not; calibrate again"
            )
        return cls(
            mean=tuple(mean.tolist()),
            covariance=tuple(tuple(line) for line in covariance.tolist()),
            observations=int(number or 0),
        )

    def summary(self) -> dict[str, tuple[float, float]]:
        """Multiplier and its log deviation, by name."""
        deviations = np.sqrt(np.diag(np.array(self.covariance)))
        return {n: (self.multiplier(n), float(d)) for n, d in zip(NAMES, deviations)}


NO_CALIBRATION = Calibration()


def _floats(data: Any) -> Floats:
    """The numbers of a list, of lists too; empty where it holds anything else."""
    try:
        return np.array(data, dtype=np.float64)
    except (TypeError, ValueError):
        return np.zeros(0)


def _is_belief(mean: Floats, covariance: Floats) -> bool:
    """Whether these are a mean and a covariance that measurements can have led to."""
    size = len(NAMES)
    if mean.shape != (size,) or covariance.shape != (size, size):
        return False
    if not (np.isfinite(covariance).all() and np.abs(mean).max() <= _FARTHEST):
        return False
    if not np.allclose(covariance, covariance.T, atol=1e-9):
        return False
    return bool(np.linalg.eigvalsh(covariance).min() > -1e-9)


def sensitivities(
    parts: Mapping[str, Floats | float], layers_measured: Bools | bool = False
) -> list[Floats]:
    """Share of the time that each multiplier of `NAMES` scales, as a list of arrays like a part.

    The bubble is the stage's time, waited for: it scales with the parts of the stage and with the
    pipeline's multiplier, so the shares add up to more than 1. Layers whose times are
    measured are scaled by no multiplier.
    """
    stage_names = ("compute", "attention", "tensor", "context", "expert", "host", "transfer")
    stage = sum(np.asarray(parts.get(name, 0.0)) for name in stage_names)
    total = sum(np.asarray(value, dtype=np.float64) for value in parts.values())
    bubble = np.asarray(parts.get("bubble", 0.0))
    scale = 1 + bubble / np.maximum(stage, 1e-12)
    found = {name: np.zeros_like(np.asarray(total, dtype=np.float64)) for name in NAMES}
    for part, value in parts.items():
        if part != "bubble":
            factor = scale if part in stage_names else 1.0
            if part in stage_names and part != "transfer":
                factor = factor * np.where(layers_measured, 0.0, 1.0)
            found[MULTIPLIER_OF[part]] = found[MULTIPLIER_OF[part]] + value * factor
    found["pipeline"] = found["pipeline"] + bubble
    return [found[name] / np.maximum(total, 1e-12) for name in NAMES]


def learn(calibration: Calibration, observations: Iterable[Observation]) -> Calibration:
    """Posterior after the observations, whose predictions were made with `calibration`.

    A linearised Gaussian update in log space; an observation far off the belief weighs less.
    """
    start = np.array(calibration.mean)
    mean, covariance = start.copy(), np.array(calibration.covariance)
    seen = calibration.observations
    for item in observations:
        seen += 1
        for row, surprise, noise in _equations(item):
            innovation = surprise - row @ (mean - start)
            mean, covariance = _update(mean, covariance, row, innovation, noise)
    return Calibration(
        mean=tuple(mean.tolist()),
        covariance=tuple(tuple(line) for line in covariance.tolist()),
        observations=seen,
    )


def _equations(item: Observation) -> list[tuple[Floats, float, float]]:
    """Rows of the linear model: sensitivity of each multiplier, log surprise, noise."""
    rows: list[tuple[Floats, float, float]] = []
    if item.measured_s and item.predicted_s > 0:
        share = np.array(
            [float(value) for value in sensitivities(item.parts, item.layers_measured)]
        )
        rows.append((share, float(np.log(item.measured_s / item.predicted_s)), TIME_NOISE))
    if item.measured_gib and item.predicted_gib > 0:
        only_memory = np.array([float(name == "memory") for name in NAMES])
        surprise = float(np.log(item.measured_gib / item.predicted_gib))
        rows.append((only_memory, surprise, MEMORY_NOISE))
    return rows


def _update(
    mean: Floats, covariance: Floats, row: Floats, innovation: float, noise: float
) -> tuple[Floats, Floats]:
    spread = float(row @ covariance @ row)
    variance = spread + noise**2
    excess = abs(innovation) / (_ROBUST * variance**0.5)
    if excess > 1:
        variance = spread + (noise * excess) ** 2
    gain = covariance @ row / variance
    return mean + gain * innovation, covariance - np.outer(gain, row @ covariance)
