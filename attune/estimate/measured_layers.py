"""Puts measured layer times in the place of the estimator's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from attune.catalog import Cluster, Model
from attune.estimate.calibration import NO_CALIBRATION, Calibration, Observation
from attune.estimate.columns import Columns, columns_of
from attune.estimate.layer_cell import KINDS, LayerCell, matching, node_of
from attune.estimate.layer_time import LayerTime, layer_times
from attune.estimate.machine import machine_of
from attune.estimate.stack import Stack, stack_of
from attune.layout import Layout, LayoutTable
from attune.layout.table import Bools, Floats
from attune.workload import Workload


def calibrated(time: LayerTime, calibration: Calibration) -> LayerTime:
    """The layer's time with every part by its multiplier."""
    return LayerTime(
        parts={n: value * calibration.part_multiplier(n) for n, value in time.parts.items()},
        forward=time.forward,
        backward=time.backward,
    )


def with_cells(
    own: Sequence[LayerTime],
    columns: Columns,
    stack: Stack,
    calibration: Calibration,
    cells: Sequence[LayerCell],
) -> list[LayerTime]:
    """`own` times by `KINDS`, scaled on the rows of each cell so that they are the measured ones.

    Where the probe cut EP to fit a node, the expert exchange stays the estimator's: the probe
    never crossed nodes.
    """
    times = list(own)
    for cell in cells:
        rows = matching(columns.table, cell)
        if rows.any():
            times = _scaled(times, rows, columns, stack, calibration, cell)
    return times


def expected_layers(
    model: Model,
    cluster: Cluster,
    workload: Workload,
    layout: Layout,
    calibration: Calibration = NO_CALIBRATION,
    framework: str | Stack = "megatron-core",
) -> dict[str, LayerTime]:
    """What a layer probe of `layout` is expected to measure, by kind: arrays of one row.

    Raises:
        LayoutError: the layers need more than one node.
    """
    node = node_of(model, cluster, layout)
    columns = columns_of(node.model, node.cluster, workload, LayoutTable.of([node.layout]))
    stack = stack_of(framework, cluster.gpu.architecture)
    found = layer_times(columns, machine_of(node.cluster, workload), stack)
    return {kind: calibrated(time, calibration) for kind, time in zip(KINDS, found)}


def observe_layers(expected: Mapping[str, LayerTime], cell: LayerCell) -> list[Observation]:
    """What the cell teaches about the multipliers of the layers' parts."""
    return [
        Observation(
            parts={name: float(values[0]) for name, values in expected[kind].parts.items()},
            predicted_s=float(expected[kind].seconds[0]),
            measured_s=sum(passes),
            predicted_gib=0.0,
        )
        for kind, passes in cell.passes.items()
    ]


def _scaled(
    times: list[LayerTime],
    rows: Bools,
    columns: Columns,
    stack: Stack,
    calibration: Calibration,
    cell: LayerCell,
) -> list[LayerTime]:
    about = (columns.model, columns.cluster, columns.workload, cell.layout)
    expected = expected_layers(*about, calibration, stack)
    node = node_of(columns.model, columns.cluster, cell.layout)
    kept = () if node.layout.ep == cell.layout.ep else ("expert",)
    result = []
    for kind, time in zip(KINDS, times):
        if kind not in cell.passes:
            result.append(time)
            continue
        forward, backward = cell.passes[kind]
        factor = (forward + backward) / float(expected[kind].seconds[0])
        result.append(_times(time, rows, factor, kept))
    return result


def _times(time: LayerTime, rows: Bools, factor: float, kept: Sequence[str]) -> LayerTime:
    scale: Floats = np.where(rows, factor, 1.0)
    return LayerTime(
        parts={n: value if n in kept else value * scale for n, value in time.parts.items()},
        forward=time.forward * scale,
        backward=time.backward * scale,
    )
