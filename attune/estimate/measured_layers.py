"""Puts measured layer times in the place of the estimator's own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attune.estimate.calibration import Calibration
from attune.estimate.columns import Columns, columns_of
from attune.estimate.layer_cell import KINDS, LayerCell, matching, node_of
from attune.estimate.layer_time import LayerTime, layer_times
from attune.estimate.machine import machine_of
from attune.estimate.stack import Stack
from attune.layout import LayoutTable
from attune.layout.table import Bools, Floats


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


def predicted_passes(
    columns: Columns, stack: Stack, calibration: Calibration
) -> dict[str, LayerTime]:
    """The estimator's own times of a table, by kind."""
    machine = machine_of(columns.cluster, columns.workload)
    found = layer_times(columns, machine, stack)
    return {kind: calibrated(time, calibration) for kind, time in zip(KINDS, found)}


def _scaled(
    times: list[LayerTime],
    rows: Bools,
    columns: Columns,
    stack: Stack,
    calibration: Calibration,
    cell: LayerCell,
) -> list[LayerTime]:
    node = node_of(columns.model, columns.cluster, cell.layout)
    there = columns_of(node.model, node.cluster, columns.workload, LayoutTable.of([node.layout]))
    expected = predicted_passes(there, stack, calibration)
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
