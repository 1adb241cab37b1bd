"""Losses and gradient norms of a run: the workload's alone, rounding apart."""

from __future__ import annotations

import numpy as np

from attune.catalog import Model
from attune.layout.table import Floats
from attune.virtual.draws import generator
from attune.workload import Workload

_FLOOR = 0.55
"""Share of the first loss that this short a run could reach at best."""
_HORIZON = 0.35
"""Share of the schedule in which the loss falls by a factor e towards its floor."""
_ROUNDING = 1e-6
"""Relative spread that the order of sums leaves between layouts."""


def losses(model: Model, workload: Workload, layout: str) -> tuple[float, ...]:
    """Loss of every step, from ln(vocabulary) falling as the learning rate is spent."""
    first = float(np.log(model.vocabulary))
    spent = np.cumsum(_schedule(workload)) - _schedule(workload)
    fall = np.exp(-spent / (_HORIZON * workload.steps))
    batch = _per_step(workload, "loss batch")
    curve = first * (_FLOOR + (1 - _FLOOR) * fall) * (1 + 0.004 * batch)
    return _rounded(curve, workload, layout, "loss")


def grad_norms(model: Model, workload: Workload, layout: str) -> tuple[float, ...]:
    """Gradient norm of every step: high at first, then settling."""
    step = np.arange(workload.steps)
    curve = 0.8 + 3.0 * np.exp(-step / (0.2 * workload.steps))
    curve = curve * np.exp(0.06 * _per_step(workload, "gradient batch"))
    return _rounded(curve, workload, layout, "gradient")


def _schedule(workload: Workload) -> Floats:
    """Learning rate of each step over its peak: linear warm-up, then a cosine."""
    optimization, steps = workload.optimization, workload.steps
    warm_up = max(optimization.warmup_fraction * steps, 1e-9)
    step = np.arange(steps) + 1.0
    least = optimization.min_learning_rate / optimization.learning_rate
    share = np.clip((step - warm_up) / max(steps - warm_up, 1e-9), 0, 1)
    cosine = least + (1 - least) * 0.5 * (1 + np.cos(np.pi * share))
    rate: Floats = np.where(step <= warm_up, step / warm_up, cosine)
    return rate


def _per_step(workload: Workload, what: str) -> Floats:
    drawn = [generator(what, workload.seed, step).normal() for step in range(workload.steps)]
    return np.array(drawn)


def _rounded(curve: Floats, workload: Workload, layout: str, what: str) -> tuple[float, ...]:
    random = generator("rounding", what, workload.seed, layout)
    noise = np.clip(random.normal(size=workload.steps), -3, 3)
    return tuple((curve * (1 + _ROUNDING * noise)).tolist())
