"""Layouts with their predictions, as a person is shown them."""

from __future__ import annotations

from collections.abc import Sequence

from attune.counts import active_parameters, mfu, tokens_per_s_per_gpu, usd_per_million_tokens
from attune.estimate import (
    NO_CALIBRATION,
    Calibration,
    LayerCell,
    MemoryEstimate,
    TimeEstimate,
    estimate_memory,
    estimate_step_time,
)
from attune.layout import LayoutTable, label, write_layout
from attune.report.plan import Suggestion
from attune.verbs.target import Target

LIKELY = 0.5
"""P(fits) from which a layout counts as fitting."""


def suggestions(
    target: Target,
    table: LayoutTable,
    calibration: Calibration = NO_CALIBRATION,
    cells: Sequence[LayerCell] = (),
    framework: str = "megatron-core",
) -> tuple[Suggestion, ...]:
    """Every row of `table`, in order, with its predictions."""
    about = (target.model, target.cluster, target.workload, table, calibration, framework)
    memory, time = estimate_memory(*about), estimate_step_time(*about, cells)
    rows = range(len(table))
    return tuple(suggestion(target, table, memory, time, row) for row in rows)


def suggestion(
    target: Target, table: LayoutTable, memory: MemoryEstimate, time: TimeEstimate, row: int
) -> Suggestion:
    """One row of `table` with its predictions."""
    cluster, layout, step_s = target.cluster, table.row(row), float(time.total[row])
    speed = tokens_per_s_per_gpu(step_s, target.workload, cluster.count)
    return Suggestion(
        layout=write_layout(layout),
        label=label(layout, cluster.count),
        step_s=step_s,
        low_s=float(time.low[row]),
        high_s=float(time.high[row]),
        tokens_per_s_per_gpu=speed,
        usd_per_million_tokens=usd_per_million_tokens(speed, cluster.gpu.usd_per_gpu_hour),
        mfu=mfu(speed, active_parameters(target.model), _peak_tflops(target)),
        reserved_gib=float(memory.reserved[row].max()),
        peak_gib=float(memory.peak_gib[row]),
        limit_gib=float(memory.limit_gib),
        stage=int(memory.stage[row]),
        p_fits=float(memory.p_fits[row]),
    )


def _peak_tflops(target: Target) -> float:
    """Dense peak of the workload's precision; bf16's where the GPU names no other."""
    peaks = target.cluster.gpu.peak_tflops
    return peaks.get(target.workload.precision, peaks["bf16"])
