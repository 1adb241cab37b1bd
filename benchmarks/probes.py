"""Corrections by a few measured rows near the one predicted, as probes would give them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.cases import TIME, Case
from benchmarks.predict import Prediction, log_errors
from benchmarks.terms import corrected

PROBES = 3


def probed(cases: Sequence[Case], predictions: list[Prediction], kind: str) -> list[Prediction]:
    """Predictions of times after probes of `kind`: none, `3` or `cell`.

    `3`: scaled by three random rows of the same model and GPU. `cell`: by all rows of the same
    hidden size, TP and rows per microbatch at another depth, as a probe of a few layers would
    measure that cell. A row is never its own probe, nor is another metric of the same run.
    """
    if kind == "none":
        return predictions
    errors = log_errors(cases, predictions)
    random = np.random.default_rng(0)
    found = list(predictions)
    places: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    key = _cell if kind == "cell" else _same
    for index, case in enumerate(cases):
        if case.metric in TIME:
            places[key(case)].append(index)
    for index, case in enumerate(cases):
        if case.metric not in TIME:
            continue
        near = [i for i in places[key(case)] if _independent(cases[i], case, kind)]
        if kind == "3" and len(near) > PROBES:
            near = random.choice(near, PROBES, replace=False).tolist()
        if near:
            found[index] = corrected(case, predictions[index], float(np.median(errors[near])))
    return found


def _same(case: Case) -> tuple[Any, ...]:
    return case.file, case.row["arch_id"], case.row["gpu"]


def _cell(case: Case) -> tuple[Any, ...]:
    layout = case.layout
    return case.file, case.row["gpu"], case.model.hidden, layout.tp, layout.rows_per_microbatch


def _independent(other: Case, case: Case, kind: str) -> bool:
    run: Callable[[Case], str] = lambda c: c.row["id"].split("/")[1].split("#")[0]  # noqa: E731
    if kind == "cell":
        return other.model.layers != case.model.layers
    return run(other) != run(case)
