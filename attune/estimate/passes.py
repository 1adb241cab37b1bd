"""Seconds of the forward and backward pass of every pipeline chunk, for one layout."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attune.catalog import Cluster, Model
from attune.estimate.collectives import stage_transfer
from attune.estimate.columns import columns_of
from attune.estimate.layer_time import LayerTime, layer_times
from attune.estimate.machine import machine_of
from attune.estimate.stack import Stack, stack_of
from attune.layout import Layout, LayoutTable, stage_splits
from attune.layout.table import Floats
from attune.workload import Workload


@dataclass(frozen=True, kw_only=True, slots=True)
class PassTimes:
    """Passes of one microbatch. Provenance: predicted."""

    forward: Floats
    """[PP, VPP] seconds."""
    backward: Floats
    """[PP, VPP] seconds, recompute included."""
    transfer_s: float
    """From a stage to its neighbour."""
    microbatches: int
    """Of one step, on each data-parallel rank."""


def estimate_passes(
    model: Model,
    cluster: Cluster,
    workload: Workload,
    layout: Layout,
    framework: str | Stack = "megatron-core",
) -> PassTimes:
    """What `estimate_step_time` adds up over layers, kept apart by chunk and direction.

    Communication is shared between the directions as the layers' own work is.

    Raises:
        AttuneError: no such framework.
    """
    table = LayoutTable.of([layout])
    stack = stack_of(framework, cluster.gpu.architecture)
    machine, columns = machine_of(cluster, workload), columns_of(model, cluster, workload, table)
    splits = stage_splits(model, table)
    head = np.zeros(splits.layers.shape[1:])
    head[-1, -1] = 1.0
    counts = (splits.dense_layers(model)[0], splits.moe_layers(model)[0], head)
    kinds = layer_times(columns, machine, stack)
    host_s = machine.microbatch_s / 2
    forward, backward = (
        np.sum([n * _seconds(k, back) for n, k in zip(counts, kinds)], axis=0) + host_s
        for back in (False, True)
    )
    return PassTimes(
        forward=forward,
        backward=backward,
        transfer_s=float(stage_transfer(columns, machine, scattered=stack.scattered_transfers)[0]),
        microbatches=int(columns.microbatches[0]),
    )


def _seconds(kind: LayerTime, back: bool) -> float:
    """The part of a layer's seconds that belongs to one direction."""
    forward, backward = float(kind.forward[0]), float(kind.backward[0])
    whole = forward + backward
    share = (backward if back else forward) / whole if whole else 0.5
    return share * float(kind.seconds[0])
