"""What the trials teach about the estimator: a Gaussian process on log(measured / predicted)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attune.layout import LayoutTable
from attune.layout.table import DISPATCHERS, GRANULARITIES, MODULES, Floats

_LENGTH = 2.5
"""Prior length scale in the units of `features` (log2 of a degree)."""
_LENGTH_SPREAD = 0.9
_AMPLITUDE_SPREAD = 0.7
_FEWEST_TO_FIT = 4
"""With fewer observations the hyper-parameters stay at their prior."""
# Priors and bounds above: the finite-list study (20 seeds, 20,031 candidates).

_DEGREES = ("tp", "pp", "vpp", "cp", "ep", "etp", "rows_per_microbatch")
_SWITCHES = (
    "sequence_parallel",
    "overlap_shared_experts",
    "overlap_experts",
    "overlap_gradients",
    "overlap_parameters",
    "overlap_tensor",
    "cuda_graphs",
    "delayed_weight_gradients",
    "precision_aware_optimizer",
)


def features(table: LayoutTable, layers: int) -> Floats:
    """[n, d] coordinates in which near layouts err alike; constant ones are left out.

    Degrees as log2, unevenness of the first and last stage, recompute and dispatcher as
    one-hot, offload share doubled, switches as 0 or 1.
    """
    even = layers / np.maximum(table.pp, 1)
    columns = [np.log2(np.maximum(getattr(table, name), 1)) for name in _DEGREES]
    columns += [
        np.where(share > 0, np.log2(np.maximum(share, 1) / even), 0.0)
        for share in (table.first, table.last)
    ]
    columns += [(table.recompute == code).astype(float) for code in range(len(GRANULARITIES))]
    columns += [(table.recompute_modules >> bit & 1).astype(float) for bit in range(len(MODULES))]
    columns += [(table.dispatcher == code).astype(float) for code in range(len(DISPATCHERS))]
    columns += [2.0 * table.optimizer_offload]
    columns += [getattr(table, name).astype(float) for name in _SWITCHES]
    matrix = np.stack(columns, axis=1)
    varying: Floats = matrix[:, np.ptp(matrix, axis=0) > 0]
    return varying if varying.shape[1] else matrix[:, :1]


@dataclass(frozen=True, kw_only=True)
class Residual:
    """Prior of log(measured / predicted): amplitude of its variation, and its noise."""

    amplitude: float
    offset: float
    """Standard deviation of an unknown offset common to all layouts."""
    noise: float

    def fit(self, points: Floats, values: Floats, noise: Floats | None = None) -> Any:
        """A fitted scikit-learn regressor.

        Args:
            points: [m, d] features of the observed layouts.
            values: [m] log(measured / predicted).
            noise: [m] standard deviation of each observation; `self.noise` by default.
        """
        from sklearn.gaussian_process import GaussianProcessRegressor

        spread = np.full(len(values), self.noise) if noise is None else noise
        few = len(values) < _FEWEST_TO_FIT
        regressor = GaussianProcessRegressor(
            kernel=self._kernel(points.shape[1]),
            alpha=spread**2 + 1e-8,
            optimizer=None if few else self._optimizer,
        )
        return regressor.fit(points, values)

    def predict(
        self, points: Floats, values: Floats, queries: Floats, noise: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Mean and standard deviation at `queries` [n, d], given observations."""
        if not len(values):
            sd = float(np.hypot(self.amplitude, self.offset))
            return np.zeros(len(queries)), np.full(len(queries), sd)
        mean, sd = self.fit(points, values, noise).predict(queries, return_std=True)
        return mean, np.maximum(sd, 1e-6)

    def _kernel(self, dimensions: int) -> Any:
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern

        shape = Matern(length_scale=np.full(dimensions, _LENGTH), nu=2.5)
        return ConstantKernel(self.amplitude**2) * shape + ConstantKernel(
            self.offset**2, constant_value_bounds="fixed"
        )

    def _optimizer(self, objective: Any, start: Floats, bounds: Floats) -> tuple[Floats, float]:
        """Maximum a posteriori: the marginal likelihood with log-normal priors added."""
        from scipy.optimize import minimize

        # theta = [log amplitude^2, log length scales...]; the spread of a log square is doubled.
        spread = np.full(len(start), _LENGTH_SPREAD)
        spread[0] = 2 * _AMPLITUDE_SPREAD

        def posterior(theta: Floats) -> tuple[float, Floats]:
            value, gradient = objective(theta)
            away = (theta - start) / spread
            return value + 0.5 * float(away @ away), gradient + away / spread

        found = minimize(
            posterior, start, jac=True, bounds=bounds, method="L-BFGS-B", options={"maxiter": 25}
        )
        return found.x, float(found.fun)
