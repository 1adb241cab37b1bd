"""Time of one optimizer step, by named parts that add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attune.catalog import Cluster, Model
from attune.counts import StageParameters, stage_parameters
from attune.counts.parameters import last_stage
from attune.estimate.calibration import NO_CALIBRATION, Calibration, sensitivities
from attune.estimate.chunks import schedule_chunks
from attune.estimate.collectives import ring, stage_transfer
from attune.estimate.columns import Columns, columns_of
from attune.estimate.layer_cell import LayerCell, covered
from attune.estimate.layer_time import STAGE_PARTS, layer_times
from attune.estimate.machine import Machine, gradient_bytes, machine_of
from attune.estimate.measured_layers import calibrated, with_cells
from attune.estimate.novelty import novelty
from attune.estimate.stack import Stack, stack_of
from attune.layout import LayoutTable, stage_splits
from attune.layout.table import Bools, Floats, Ints
from attune.workload import Workload

TIME_PARTS = (*STAGE_PARTS, "transfer", "bubble", "data", "optimizer", "offload", "fixed")
"""Compute, attention core, tensor, context and expert exchanges, host launches, stage transfers,
pipeline bubble, gradient and parameter exchanges, optimizer, its host share, fixed costs."""
_HIDDEN_AT_MOST = 0.95
_EIGHTY_PERCENT = 1.2816


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeEstimate:
    """Predicted step time of n rows."""

    parts: dict[str, Floats]
    """[n] seconds by `TIME_PARTS`, of the busiest stage; they add up to `total`."""
    sigma: Floats
    """[n] deviation of the log of the total."""
    layers_measured: Bools | None = None
    """[n] whether layer times are those of a probe; None is nowhere."""

    @property
    def total(self) -> Floats:
        """[n] seconds of one step: the sum of the parts."""
        total: Floats = np.sum([self.parts[name] for name in TIME_PARTS], axis=0)
        return total

    @property
    def low(self) -> Floats:
        """[n] lower end of the 80 % interval, seconds."""
        low: Floats = self.total * np.exp(-_EIGHTY_PERCENT * self.sigma)
        return low

    @property
    def high(self) -> Floats:
        """[n] upper end of the 80 % interval, seconds."""
        high: Floats = self.total * np.exp(_EIGHTY_PERCENT * self.sigma)
        return high


def estimate_step_time(
    model: Model,
    cluster: Cluster,
    workload: Workload,
    table: LayoutTable,
    calibration: Calibration = NO_CALIBRATION,
    framework: str | Stack = "megatron-core",
    cells: Sequence[LayerCell] = (),
) -> TimeEstimate:
    """Step time of every row, legal or not.

    `cells` are measured layer times (`attune probe layers`) of this model, workload and GPU; rows
    of their points take them in place of the estimator's own.

    Raises:
        AttuneError: no such framework.
    """
    stack = stack_of(framework, cluster.gpu.architecture)
    machine = machine_of(cluster, workload)
    parts = {name: np.zeros(len(table)) for name in TIME_PARTS}
    for rows, part in schedule_chunks(table):
        columns = columns_of(model, cluster, workload, part)
        for name, value in _chunk(columns, machine, stack, calibration, cells).items():
            parts[name][rows] = value
    measured = covered(table, cells)
    shares = np.stack(sensitivities(parts, measured), axis=1)
    name = framework if isinstance(framework, str) else "stated"
    sigma = np.hypot(calibration.time_sigma(shares), novelty(model, cluster, workload, table, name))
    return TimeEstimate(parts=parts, sigma=sigma, layers_measured=measured)


def _chunk(
    columns: Columns,
    machine: Machine,
    stack: Stack,
    calibration: Calibration,
    probed: Sequence[LayerCell],
) -> dict[str, Floats]:
    """Parts of rows that share a schedule: m max(W) + (sum(W) - max(W)) / VPP and the rest."""
    model = columns.model
    splits = stage_splits(model, columns.table)
    place = splits.split
    exists = splits.exists[place]
    layers = splits.dense_layers(model).sum(axis=2), splits.moe_layers(model).sum(axis=2)
    cells = _trained(model, stack, exists, *(x[place] for x in (*layers, last_stage(splits))))
    kinds = [calibrated(x, calibration) for x in layer_times(columns, machine, stack)]
    kinds = with_cells(kinds, columns, stack, calibration, probed)
    sends = stage_transfer(columns, machine, scattered=stack.scattered_transfers)
    passes = 2 * sends * columns.vpp * calibration.multiplier("pipeline")
    fixed = machine.microbatch_s * columns.vpp * calibration.part_multiplier("fixed")
    work = _stage_seconds([kind.seconds for kind in kinds], cells)
    work = np.where(exists, work + (passes + fixed)[:, None], 0.0)
    busiest = work.argmax(axis=1)[:, None]
    number = columns.microbatches.astype(np.float64)
    there = [np.take_along_axis(x, busiest, axis=1)[:, 0] for x in cells]
    parts: dict[str, Floats] = {
        name: number * np.sum([c * k.parts[name] for c, k in zip(there, kinds)], axis=0)
        for name in STAGE_PARTS
    }
    most = np.take_along_axis(work, busiest, axis=1)[:, 0]
    parts["transfer"] = number * passes
    waiting = (work.sum(axis=1) - most) / columns.vpp
    parts["bubble"] = waiting * calibration.multiplier("pipeline")
    parts["fixed"] = number * fixed + machine.step_s * calibration.part_multiplier("fixed")
    hides = [
        machine.hidden_share * _stage_seconds(seconds, cells).max(axis=1) / columns.vpp
        for seconds in ([kind.backward for kind in kinds], [kind.forward for kind in kinds])
    ]
    counts = stage_parameters(model, columns.table, splits)
    parts["data"] = _data(columns, machine, counts, hides) * calibration.part_multiplier("data")
    parts.update(_optimizer(columns, machine, counts, calibration))
    return parts


def _trained(
    model: Model, stack: Stack, exists: Bools, *cells: Ints | Bools
) -> tuple[Floats, Floats, Floats]:
    """[n, P] dense layers, MoE layers and heads of each stage, with multi-token prediction and
    with the work spread evenly where the stack says so."""
    dense, moe, last = (cell.astype(np.float64) for cell in cells)
    if model.experts:
        moe = moe + stack.mtp_layers * last
    else:
        dense = dense + stack.mtp_layers * last
    heads = last * (1.0 + stack.mtp_layers)
    if not stack.balanced_stages:
        return dense, moe, heads
    share = exists / exists.sum(axis=1, keepdims=True)
    extra = float(stack.mtp_layers)
    all_moe = model.layers - model.first_moe_layer + (extra if model.experts else 0.0)
    all_dense = model.first_moe_layer + (0.0 if model.experts else extra)
    return share * all_dense, share * all_moe, share * (1.0 + extra)


def _stage_seconds(seconds: Sequence[Floats], cells: Sequence[Floats]) -> Floats:
    """[n, P] what the layers and the head of each stage take, given seconds of each kind."""
    total: Floats = np.sum([count * one[:, None] for count, one in zip(cells, seconds)], axis=0)
    return total


def _data(
    columns: Columns, machine: Machine, counts: StageParameters, hides: list[Floats]
) -> Floats:
    """Gradients scattered and parameters gathered, less what overlap hides."""
    sharded = columns.table.distributed_optimizer
    dense, expert = counts.dense.max(axis=1), counts.expert.max(axis=1)
    ranks, experts = columns.dp * columns.cp, columns.edp
    stride = columns.ep * columns.etp
    size = gradient_bytes(columns)
    steps = np.where(sharded, 1.0, 2.0)
    reduced = ring(machine, dense * size, ranks, columns.tp, 1) * steps
    reduced = reduced + ring(machine, expert * size, experts, stride, 1) * steps
    gathered = ring(machine, dense * columns.width, ranks, columns.tp, 1)
    gathered = gathered + ring(machine, expert * columns.width, experts, stride, 1)
    gathered = np.where(sharded, gathered, 0.0)
    hidden = np.where(
        columns.table.overlap_gradients, np.minimum(hides[0], _HIDDEN_AT_MOST * reduced), 0.0
    )
    hidden = hidden + np.where(
        columns.table.overlap_parameters, np.minimum(hides[1], _HIDDEN_AT_MOST * gathered), 0.0
    )
    data: Floats = reduced + gathered - hidden
    return data


def _optimizer(
    columns: Columns, machine: Machine, counts: StageParameters, calibration: Calibration
) -> dict[str, Floats]:
    """Adam on the device's share of the parameters, and on the host's."""
    sharded = columns.table.distributed_optimizer
    shards = np.where(sharded, columns.dp * columns.cp, 1.0)[:, None]
    expert_shards = np.where(sharded, columns.edp, 1.0)[:, None]
    owned = (counts.dense / shards + counts.expert / expert_shards).max(axis=1)
    share = columns.table.optimizer_offload
    moved = owned * machine.optimizer_bytes * (1 - share) / machine.memory
    # Gradients go to the host in float32, weights come back in bf16; overlap saves about 7 %.
    host = share * owned * (machine.offload_s + 6.0 / machine.copy)
    host = host * np.where(columns.table.overlap_offload, 0.93, 1.0)
    return {
        "optimizer": moved * calibration.part_multiplier("optimizer"),
        "offload": host * calibration.part_multiplier("offload"),
    }
