"""Figures that say how good predictions are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from attune.layout.table import Floats
from benchmarks.cases import TIME, Case
from benchmarks.predict import Prediction

_LEAST_FOR_REGRET = 3
"""Layouts of one problem from which on its first choice is judged."""


def percentages(cases: Sequence[Case], predictions: Sequence[Prediction]) -> Floats:
    """Predicted over measured less 1, percent, in the units of the metric."""
    errors: Floats = np.array([100 * (p.value / c.value - 1) for c, p in zip(cases, predictions)])
    return errors


def errors(cases: Sequence[Case], predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Number of rows; mean, median, 90th percentile and worst absolute error, percent."""
    absolute = np.abs(percentages(cases, predictions))
    if not len(absolute):
        return {"n": 0}
    return {
        "n": len(absolute),
        "mean_abs_pct": round(float(absolute.mean()), 3),
        "median_abs_pct": round(float(np.median(absolute)), 3),
        "p90_abs_pct": round(float(np.percentile(absolute, 90)), 3),
        "max_abs_pct": round(float(absolute.max()), 3),
    }


def ranking(cases: Sequence[Case], predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Share of pairs of layouts of one problem put in the right order, and the mean regret of
    running the first choice, percent. Rows whose measured times are equal are no pair."""
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for index, case in enumerate(cases):
        if case.metric in TIME:
            groups[(case.metric, *case.fields)].append(index)
    right = pairs = 0
    regrets = []
    for indices in groups.values():
        fast = [cases[i].metric != "step_time_s" for i in indices]
        sign = np.where(fast, -1.0, 1.0)
        measured = sign * np.array([cases[i].value for i in indices])
        predicted = sign * np.array([predictions[i].value for i in indices])
        upper = np.triu_indices(len(indices), 1)
        truth = (measured[:, None] - measured[None, :])[upper]
        belief = (predicted[:, None] - predicted[None, :])[upper]
        pairs += int((truth != 0).sum())
        right += int((truth * belief > 0).sum())
        if len(indices) >= _LEAST_FOR_REGRET:
            regrets.append(_regret(np.abs(measured), predicted.argmin(), fast[0]))
    found: dict[str, Any] = {}
    if pairs:
        found.update(concordance=round(right / pairs, 4), pairs=pairs)
    if regrets:
        found.update(regret_pct=round(100 * float(np.mean(regrets)), 3), problems=len(regrets))
    return found


def _regret(measured: Floats, choice: np.intp, fast: bool) -> float:
    """How much slower the choice is than the best."""
    if fast:
        return float(measured.max() / measured[choice] - 1)
    return float(measured[choice] / measured.min() - 1)


def brier(cases: Sequence[Case], predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Mean squared distance of P(fits) from what happened; how many ran out of memory, and how
    many of these at a probability over 0.95."""
    chances = np.array([p.value for p in predictions])
    fits = np.array([c.value for c in cases])
    if not len(chances):
        return {"n": 0}
    return {
        "n": len(chances),
        "brier": round(float(np.mean((chances - fits) ** 2)), 4),
        "out_of_memory": int((fits == 0).sum()),
        "out_of_memory_above_95": int(((fits == 0) & (chances > 0.95)).sum()),
    }
