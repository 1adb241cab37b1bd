"""Calibration from measured rows: one factor, or named terms, with a group of rows left out.

A term is an efficiency of the catalogue's GPU (`attune.estimate.machine.DEFAULTS`). Terms are
fitted as factors on it in log space, with a prior and a robust loss, by Gauss-Newton steps whose
derivatives are those of the model alone and shared between the groups.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from attune.catalog import Gpu
from attune.estimate.machine import DEFAULTS
from attune.layout.table import Floats
from benchmarks.cases import TIME, Case
from benchmarks.predict import Prediction, Terms, log_errors, predict

PRIORS = {
    "gemm": 0.2,
    "quantized_gemm": 0.25,
    "grouped_gemm": 0.25,
    "quantized_grouped_gemm": 0.25,
    "attention": 0.3,
    "memory": 0.2,
    "elementwise": 0.3,
    "node_link": 0.25,
    "network_link": 0.4,
    "network_all_to_all": 0.4,
    "node_latency_us": 0.6,
    "network_latency_us": 0.6,
    "host_kernel_us": 0.7,
    "host_backward": 0.3,
    "microbatch_ms": 0.8,
    "step_ms": 0.8,
    "optimizer_bytes": 0.3,
    "kernel_us": 0.5,
    "ramp": 0.7,
    "sharpness": 0.4,
    "softmax": 0.3,
    "attention_backward": 0.2,
}
"""Free terms and the prior deviation of their logs (those of a study on 700 step times)."""
_AT_MOST = {"gemm", "quantized_gemm", "grouped_gemm", "attention", "memory"}
_AT_MOST |= {"quantized_grouped_gemm"}
_AT_MOST |= {"node_link", "network_link", "network_all_to_all"}
"""Shares of a peak: no more than 1."""
_SCALE = 0.03
"""Least noise of a row: log error beyond which it counts less (pseudo-Huber). Where rows scatter
more (releases of one layout), their median deviation is taken."""
_MANY_GROUPS = 5
"""Groups among which what is particular to each averages out."""
_ROUNDS = 7
_SLOPES_AT = (0, 1, 3)
_FEW, _OWN_SLOPES = 60, 3
"""With fewer rows a group takes derivatives at its own fit, for those of the common one would
carry its own measurements in; with more they hardly move."""
_OWN_ROUNDS = 12
_SETTLED = 0.01
"""Largest step of a log factor at which a fit has found its mode."""
_STEP = 0.02
_FELT = 0.002
"""Slope under which no row feels a term, so that it keeps the catalogue's value."""


def unit(case: Case) -> tuple[str, str]:
    """Rows that share a calibration: one source, one GPU architecture."""
    return case.file, case.cluster.gpu.architecture


def groups_of(cases: Sequence[Case]) -> list[str]:
    """The group that each case is left out with."""
    return [
        case.row["id"].split("/")[1] if case.metric == "peak_reserved_gib" else case.family
        for case in cases
    ]


def base_terms(gpu: Gpu) -> dict[str, float]:
    """All free terms of a GPU before a fit."""
    terms = {**DEFAULTS, **gpu.efficiency}
    terms.setdefault("node_latency_us", gpu.node_link.latency_us)
    terms.setdefault("network_latency_us", gpu.network_link.latency_us)
    return {name: terms[name] for name in PRIORS}


def scaled(gpu: Gpu, factors: Floats) -> Terms:
    """The GPU's terms times exp(factors), kept physical."""
    found = {}
    for (name, value), factor in zip(base_terms(gpu).items(), factors):
        found[name] = float(value * np.exp(factor))
        if name in _AT_MOST:
            found[name] = min(found[name], max(value, 0.97))
    return found


def calibrated(
    cases: Sequence[Case], kind: str, leave_out: bool
) -> tuple[list[Prediction], list[Terms]]:
    """Predictions after a calibration of `kind` (none, scalar, terms), and the terms used."""
    raw = predict(cases)
    if kind == "none":
        return raw, [{}] * len(cases)
    groups = groups_of(cases)
    terms: list[Terms] = [{}] * len(cases)
    if kind == "terms":
        terms = _terms(cases, groups, leave_out)
        raw = predict(cases, terms)
    memory = [i for i, c in enumerate(cases) if c.metric not in TIME and c.metric != "outcome"]
    scalar = list(range(len(cases))) if kind == "scalar" else memory
    return _scaled(cases, raw, groups, leave_out, scalar), terms


def _scaled(
    cases: Sequence[Case],
    raw: list[Prediction],
    groups: list[str],
    leave_out: bool,
    indices: list[int],
) -> list[Prediction]:
    """Each prediction divided by the median error of the rows outside its group.

    Allocated memory is derived, not fitted, and an outcome is no size: both stay as they are.
    """
    errors = log_errors(cases, raw)
    found = list(raw)
    for i in indices:
        case = cases[i]
        if case.metric in ("peak_allocated_gib", "outcome"):
            continue
        others = [
            j
            for j in indices
            if unit(cases[j]) == unit(case)
            and (cases[j].metric in TIME) == (case.metric in TIME)
            and (case.metric in TIME or cases[j].metric == case.metric)
            and (case.metric in TIME or bool(cases[j].model.experts) == bool(case.model.experts))
            and not (leave_out and groups[j] == groups[i])
        ]
        if others:
            found[i] = corrected(case, raw[i], float(np.median(errors[others])))
    return found


def corrected(case: Case, prediction: Prediction, error: float) -> Prediction:
    """The prediction without a log error of its step time (or memory)."""
    sign = -1.0 if case.metric in TIME[1:] else 1.0
    factor = float(np.exp(-sign * error))
    return Prediction(
        value=prediction.value * factor,
        sigma=prediction.sigma,
        parts={name: part * np.exp(-error) for name, part in prediction.parts.items()},
    )


def _terms(cases: Sequence[Case], groups: list[str], leave_out: bool) -> list[Terms]:
    """Terms of each case, fitted on rows of its unit outside its group."""
    units: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, case in enumerate(cases):
        if case.metric in TIME:
            units[unit(case)].append(index)
    found: list[Terms] = [{}] * len(cases)
    for indices in units.values():
        some = [cases[i] for i in indices]
        own = [groups[i] for i in indices]
        fits = fit(some, own if leave_out else ["all"] * len(some), leave_out)
        for i, case, group in zip(indices, some, own):
            factors = fits[group if leave_out else "all"]
            found[i] = scaled(case.cluster.gpu, factors)
    return found


def fit(cases: Sequence[Case], groups: Sequence[str], leave_out: bool) -> dict[str, Floats]:
    """Log factors of all terms for each group, fitted on the rows outside it (on all, without
    `leave_out`). A group outside which there are no rows keeps the catalogue's.

    The fit on all rows is only where the fits of the groups start; each goes on to its own mode.
    """
    common, slopes = np.zeros(len(PRIORS)), np.zeros((len(cases), len(PRIORS)))
    felt = np.ones(len(PRIORS), dtype=np.bool_)
    for step in range(_ROUNDS):
        if step in _SLOPES_AT:
            slopes = _slopes(cases, common, felt)
            felt = np.abs(slopes).max(axis=0) > _FELT
        common = _improved(cases, common, slopes)
    names = sorted(set(groups))
    if not leave_out:
        return dict.fromkeys(names, common)
    factors = {name: np.zeros(len(PRIORS)) for name in names}
    for name in names:
        rows = np.flatnonzero([group != name for group in groups])
        if len(rows):
            some, own = [cases[i] for i in rows], slopes[rows]
            factors[name] = _settled(some, common, own)
            for _ in range(_OWN_SLOPES if len(rows) < _FEW else 0):
                own = _slopes(some, factors[name], felt)
                factors[name] = _settled(some, factors[name], own)
    return factors


def _settled(cases: Sequence[Case], factors: Floats, slopes: Floats) -> Floats:
    """The posterior mode near `factors`."""
    for _ in range(_OWN_ROUNDS):
        before, factors = factors, _improved(cases, factors, slopes)
        if np.abs(factors - before).max() < _SETTLED:
            break
    return factors


def _errors(cases: Sequence[Case], factors: Floats) -> Floats:
    terms = [scaled(case.cluster.gpu, factors) for case in cases]
    return log_errors(cases, predict(cases, terms))


def _slopes(cases: Sequence[Case], factors: Floats, felt: npt.NDArray[np.bool_]) -> Floats:
    """[rows, terms] derivative of the log error by each log factor."""
    base = _errors(cases, factors)
    slopes = np.zeros((len(cases), len(PRIORS)))
    for place in np.flatnonzero(felt):
        # Downwards, for shares of a peak may stand at their bound.
        moved = factors.copy()
        moved[place] -= _STEP
        slopes[:, place] = (base - _errors(cases, moved)) / _STEP
    return slopes


def _improved(cases: Sequence[Case], factors: Floats, slopes: Floats) -> Floats:
    """One damped, weighted Gauss-Newton step towards the posterior mode."""
    errors = _errors(cases, factors)
    precision = np.diag(1 / np.array(list(PRIORS.values())) ** 2)
    information = slopes.T @ _information(cases, errors)
    matrix = information @ slopes + precision
    gradient = information @ errors + precision @ factors
    step = np.linalg.solve(matrix, gradient)
    return factors - np.clip(step, -0.5, 0.5)


def _information(cases: Sequence[Case], errors: Floats) -> Floats:
    """[rows, rows] inverse covariance: each row's own noise, more of it far off (pseudo-Huber),
    and, among few groups, as much that it shares with its group: many rows of one model are not
    as many witnesses."""
    scale = max(_SCALE, 1.4826 * float(np.median(np.abs(errors))))
    weight = 1 / np.sqrt(1 + (errors / scale) ** 2) / scale**2
    matrix = np.diag(weight)
    groups = np.array(groups_of(cases))
    names = sorted(set(groups))
    for name in names if len(names) < _MANY_GROUPS else ():
        own = np.where(groups == name, weight, 0.0)
        matrix -= np.outer(own, own) * scale**2 / (1 + scale**2 * own.sum())
    information: Floats = matrix
    return information
