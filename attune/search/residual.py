"""What the trials teach about the estimator: Gaussian processes on log(measured / predicted).

An error of the estimator is the sum of four: one common to all layouts, one of each multiplier
(an efficiency that is off moves each layout by its share of it), one that near layouts share,
and one that each layout has alone. How large the third is and how far it reaches is not known,
so every pair of a small grid is fitted and weighed by how well it explains the runs: an average
over a grid needs no optimizer, and does not stake everything on one guess from ten points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attune.layout.table import Floats

_LEAST_WEIGHT = 0.01
"""Members of the grid that the runs make less likely than this are left out."""


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where n layouts stand: what makes their errors alike."""

    points: Floats
    """[n, d] coordinates of `features`."""
    shares: Floats
    """[n, k] deviation that each independent multiplier gives the logarithm."""

    @classmethod
    def of(cls, points: Floats, shares: Floats, covariance: Floats) -> Places:
        """Places from shares whose multipliers have this covariance [k, k] in log space."""
        values, vectors = np.linalg.eigh(covariance)
        return cls(points=points, shares=shares @ (vectors * np.sqrt(np.maximum(values, 0.0))))


@dataclass(frozen=True, kw_only=True)
class Belief:
    """Mixture of normal distributions of log(measured / predicted) for every layout."""

    weights: Floats
    """[c]; they add up to 1."""
    means: Floats
    """[c, n]."""
    deviations: Floats
    """[c, n]."""

    @property
    def mean(self) -> Floats:
        """[n]."""
        mean: Floats = self.weights @ self.means
        return mean

    @property
    def deviation(self) -> Floats:
        """[n]."""
        square = self.weights @ (self.deviations**2 + self.means**2) - self.mean**2
        deviation: Floats = np.sqrt(np.maximum(square, 1e-12))
        return deviation

    def chance_below(self, bound: Floats) -> Floats:
        """[n] probability of a value below `bound` [n]."""
        from scipy.special import ndtr

        chance: Floats = self.weights @ ndtr((bound - self.means) / self.deviations)
        return chance

    def improvement(self, bound: Floats) -> Floats:
        """[n] expected amount by which the value stays below `bound` [n]."""
        from scipy.special import ndtr

        z = (bound - self.means) / self.deviations
        density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
        expected: Floats = self.weights @ (self.deviations * (z * ndtr(z) + density))
        return np.maximum(expected, 0.0)


@dataclass(frozen=True, kw_only=True)
class Residual:
    """Prior of log(measured / predicted)."""

    offset: float
    """Deviation of the error common to all layouts."""
    amplitudes: tuple[float, ...]
    """Deviations, each as likely, of the error that near layouts share."""
    lengths: tuple[float, ...]
    """Distances over which they share it, in the units of `features` (log2 of a degree)."""
    alone: float
    """Deviation of what each layout has alone."""
    noise: float
    """Deviation between runs of one layout."""

    def believe(self, places: Places, rows: list[int], values: Floats, noise: Floats) -> Belief:
        """What m observations say of all n layouts.

        Args:
            places: all layouts.
            rows: [m] the observed ones.
            values: [m] log(measured / predicted).
            noise: [m] deviation of each observation from the layout's own value.
        """
        if not rows:
            return self._unseen(places)
        common = self.offset**2 + places.shares @ places.shares[rows].T
        apart = np.diag(self.alone**2 + noise**2 + 1e-9)
        spread = self.offset**2 + self.alone**2 + (places.shares**2).sum(axis=1)
        distances = _distances(places.points, places.points[rows])
        members = [
            _Member.fit(amplitude, near, common, apart, rows, values)
            for near in (_matern(distances / length) for length in self.lengths)
            for amplitude in self.amplitudes
        ]
        likely = np.array([member.log_likelihood for member in members])
        weights = np.exp(likely - likely.max())
        weights = np.where(weights < _LEAST_WEIGHT * weights.sum(), 0.0, weights)
        kept = [member for member, weight in zip(members, weights) if weight]
        predicted = [member.predict(common, spread) for member in kept]
        return Belief(
            weights=weights[weights > 0] / weights.sum(),
            means=np.stack([mean for mean, _ in predicted]),
            deviations=np.stack([deviation for _, deviation in predicted]),
        )

    def _unseen(self, places: Places) -> Belief:
        square = np.mean(np.square(self.amplitudes)) + self.offset**2 + self.alone**2
        deviations = np.sqrt(square + (places.shares**2).sum(axis=1))[None]
        return Belief(weights=np.ones(1), means=np.zeros_like(deviations), deviations=deviations)


@dataclass(frozen=True, kw_only=True)
class _Member:
    """One Gaussian process of the grid, fitted to the observations."""

    amplitude: float
    near: Floats
    """[n, m] correlation of the error that near layouts share."""
    root: Floats
    """[m, m] lower Cholesky factor of the observations' covariance."""
    whitened: Floats
    """[m] observations, solved by it."""

    @classmethod
    def fit(
        cls,
        amplitude: float,
        near: Floats,
        common: Floats,
        apart: Floats,
        rows: list[int],
        values: Floats,
    ) -> _Member:
        from scipy.linalg import cholesky, solve_triangular

        root = cholesky(amplitude**2 * near[rows] + common[rows] + apart, lower=True)
        whitened = solve_triangular(root, values, lower=True)
        return cls(amplitude=amplitude, near=near, root=root, whitened=whitened)

    @property
    def log_likelihood(self) -> float:
        """Of the observations, up to a constant."""
        fit = -0.5 * float(self.whitened @ self.whitened)
        return fit - float(np.log(np.diag(self.root)).sum())

    def predict(self, common: Floats, spread: Floats) -> tuple[Floats, Floats]:
        """Mean and deviation [n] of every layout."""
        from scipy.linalg import solve_triangular

        covariance = self.amplitude**2 * self.near + common
        solved = solve_triangular(self.root, covariance.T, lower=True)
        variance = self.amplitude**2 + spread - (solved**2).sum(axis=0)
        return solved.T @ self.whitened, np.sqrt(np.maximum(variance, 1e-8))


def _distances(points: Floats, others: Floats) -> Floats:
    """[n, m] Euclidean distances."""
    squares = (points**2).sum(axis=1)[:, None] + (others**2).sum(axis=1)
    distances: Floats = np.sqrt(np.maximum(squares - 2 * points @ others.T, 0.0))
    return distances


def _matern(distances: Floats) -> Floats:
    """Matern correlation of smoothness 5/2 (Rasmussen and Williams, equation 4.17)."""
    scaled = np.sqrt(5.0) * distances
    correlation: Floats = (1 + scaled + scaled**2 / 3) * np.exp(-scaled)
    return correlation
