"""A measured layout on more GPUs: the estimator's ratio, with the interval that it deserves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attune.catalog import Cluster, Model
from attune.estimate import estimate_memory, estimate_step_time
from attune.estimate.calibration import NO_CALIBRATION, TIME_NOISE, Calibration, learn
from attune.estimate.observe import observe
from attune.experiment.events import Finished
from attune.layout import LayoutTable, parse_layout
from attune.layout.rules import Setting, broken_rules
from attune.layout.table import Floats
from attune.search.features import time_shares
from attune.workload import Workload

_EIGHTY_PERCENT = 1.2816


@dataclass(frozen=True, kw_only=True)
class Projected:
    """What is predicted of a layout on another count. Provenance: predicted."""

    count: int
    step_s: float
    low_s: float
    high_s: float
    """80 % interval."""
    peak_gib: float
    p_fits: float
    problem: str = ""
    """Why the layout cannot run there; empty when it can."""


def project(
    model: Model,
    small: tuple[Cluster, Workload],
    large: tuple[Cluster, Workload],
    run: Finished,
    others: list[Finished],
) -> Projected:
    """The layout of `run`, measured on `small`, on `large`.

    Step time and memory are measured times the ratio of the estimates. The error of the ratio is
    that of the multipliers, as all runs leave them, on the shares that change between the two.
    """
    layout = parse_layout(run.layout)
    table = LayoutTable.of([layout])
    calibration = _calibrated(model, small, [run, *others])
    here, there = (_seconds(model, place, table, calibration) for place in (small, large))
    memory = [estimate_memory(model, *place, table, calibration) for place in (small, large)]
    ratio = (run.peak_gib or memory[0].reserved.max()) / float(memory[0].reserved.max())
    step_s = (run.step_time_s or here[0]) * there[0] / here[0]
    edge = float(np.exp(_EIGHTY_PERCENT * _deviation(here[1], there[1], calibration)))
    broken = broken_rules(Setting.of(model, *large), layout)
    return Projected(
        count=large[0].count,
        step_s=step_s,
        low_s=step_s / edge,
        high_s=step_s * edge,
        peak_gib=float(memory[1].peak_gib[0]) * ratio,
        p_fits=float(memory[1].p_fits[0]),
        problem=f"{broken[0].message}; {broken[0].cure}" if broken else "",
    )


def _calibrated(model: Model, place: tuple[Cluster, Workload], runs: list[Finished]) -> Calibration:
    """What the runs teach about the multipliers."""
    done = [run for run in runs if run.outcome == "completed" and run.step_time_s]
    table = LayoutTable.of([parse_layout(run.layout) for run in done])
    time, memory = estimate_step_time(model, *place, table), estimate_memory(model, *place, table)
    seen = [
        observe(time, memory, row, measured_s=run.step_time_s, measured_reserved_gib=run.peak_gib)
        for row, run in enumerate(done)
    ]
    return learn(NO_CALIBRATION, seen)


def _seconds(
    model: Model, place: tuple[Cluster, Workload], table: LayoutTable, calibration: Calibration
) -> tuple[float, Floats]:
    """Seconds of a step, and the share of it that each multiplier scales."""
    time = estimate_step_time(model, *place, table, calibration)
    return float(time.total[0]), time_shares(time.parts)[0]


def _deviation(here: Floats, there: Floats, calibration: Calibration) -> float:
    """Deviation of the log of the ratio; what one layout has alone it keeps for the most part,
    and a half of it is granted for what more GPUs bring anew."""
    change = there - here
    variance = float(change @ np.array(calibration.covariance) @ change)
    return float(np.sqrt(variance + (0.5 * TIME_NOISE) ** 2))
