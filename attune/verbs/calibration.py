"""What measured trials have taught the estimator, and how a new one is learnt from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from attune.catalog import load_gpu
from attune.errors import AttuneError
from attune.estimate import (
    NO_CALIBRATION,
    Calibration,
    LayerCell,
    Observation,
    estimate_memory,
    estimate_step_time,
    learn,
    observe,
)
from attune.experiment import (
    CalibrationKey,
    SavedCalibration,
    calibration_file,
    list_calibrations,
    reset_calibrations,
    update_calibration,
)
from attune.experiment.calibration_records import read_calibrations
from attune.layout import Layout, LayoutTable
from attune.report.calibration import NOTHING_LEARNT, CalibrationReport, Learnt, Multiplier
from attune.trial.result import TrialResult
from attune.verbs.target import Target

EIGHTY_PERCENT = 1.2816
"""Deviations of a normal distribution that hold 80 % of it."""


def show_calibrations(
    *, gpu: str | None = None, framework: str | None = None, file: Path | None = None
) -> tuple[CalibrationReport, ...]:
    """The saved calibrations, oldest first; of one GPU type or framework where asked.

    Raises:
        AttuneError: an unknown GPU, or a damaged file.
    """
    kind = load_gpu(gpu).id if gpu else None
    return tuple(
        _report(saved, file)
        for saved in list_calibrations(file)
        if _is_asked(saved.key, kind, framework)
    )


def forget_calibrations(
    *, gpu: str | None = None, framework: str | None = None, file: Path | None = None
) -> int:
    """Removes the calibrations of that GPU type and framework, all without them; their number.

    Raises:
        AttuneError: an unknown GPU, or a file that another process holds.
    """
    if gpu is None and framework is None:
        return reset_calibrations(file=file)
    kind = load_gpu(gpu).id if gpu else None
    return reset_calibrations(lambda key: _is_asked(key, kind, framework), file)


def _is_asked(key: CalibrationKey, gpu: str | None, framework: str | None) -> bool:
    return gpu in (None, key.gpu) and framework in (None, key.framework)


def _report(saved: SavedCalibration, file: Path | None) -> CalibrationReport:
    key, found = saved.key, Calibration.of_data(saved.calibration)
    return CalibrationReport(
        gpu=key.gpu,
        per_node=key.per_node,
        node_gb_per_s=key.node_link.bandwidth_gb_per_s,
        network_gb_per_s=key.network_link.bandwidth_gb_per_s,
        framework=key.framework,
        trials=found.observations,
        updated=f"{saved.updated:%Y-%m-%d %H:%M}",
        file=calibration_file(file),
        cells=sum(cell.key == key for cell in read_calibrations(file).cells),
        multipliers=_multipliers(found),
    )


def _multipliers(found: Calibration) -> tuple[Multiplier, ...]:
    before, after = NO_CALIBRATION.summary(), found.summary()
    return tuple(
        Multiplier(
            name=name,
            prior=before[name][0],
            prior_low=_end(before[name], -1),
            prior_high=_end(before[name], 1),
            posterior=after[name][0],
            low=_end(after[name], -1),
            high=_end(after[name], 1),
        )
        for name in after
    )


def _end(belief: tuple[float, float], side: int) -> float:
    factor, deviation = belief
    return factor * float(np.exp(side * EIGHTY_PERCENT * deviation))


def learn_from_trial(
    target: Target,
    layout: Layout,
    result: TrialResult,
    *,
    framework: str = "megatron-core",
    cells: Sequence[LayerCell] = (),
    file: Path | None = None,
) -> Learnt:
    """Has the calibration of the target's cluster learn from a measured trial, and saves it.

    Predicted runs and runs that did not end teach nothing. A file that cannot be written is said
    and raises nothing, as the trial itself went well.
    """
    if result.provenance != "measured" or result.outcome != "completed":
        return NOTHING_LEARNT

    def seen(calibration: Calibration) -> list[Observation]:
        about = (target.model, target.cluster, target.workload, LayoutTable.of([layout]))
        time = estimate_step_time(*about, calibration, framework, cells)
        memory = estimate_memory(*about, calibration, framework)
        # On CPU the resident set stands for an allocator's peak, which teaches nothing of a GPU's.
        on_cpu = target.cluster.gpu.architecture == "cpu"
        peak = None if on_cpu else result.peak_reserved_gib
        return [observe(time, memory, measured_s=result.step_time_s, measured_reserved_gib=peak)]

    return learn_observations(target, seen, framework=framework, file=file)


def learn_observations(
    target: Target,
    seen: Callable[[Calibration], list[Observation]],
    *,
    framework: str,
    file: Path | None,
    runs: int = 1,
) -> Learnt:
    """Has the saved calibration learn what `seen` observes of `runs` runs, beside its own
    predictions."""

    def change(calibration: Calibration) -> Calibration:
        learnt = learn(calibration, seen(calibration))
        return replace(learnt, observations=calibration.observations + runs)

    try:
        now = update_calibration(change, target.cluster, framework, file)
    except AttuneError as error:
        return Learnt(problem=str(error))
    return Learnt(file=calibration_file(file), trials=now.observations)
