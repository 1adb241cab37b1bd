"""Peak memory of every stage: static, in flight, transient, and what lies outside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attune.layout import StageSplits
from attune.layout.table import METHODS, Floats
from attune.virtual.imbalance import over_layers
from attune.virtual.layer import fully
from attune.virtual.parameters import parameters_of
from attune.virtual.saved import dense_saved, expert_saved, kept, whole
from attune.virtual.schedule import plan_schedule
from attune.virtual.setting import Setting
from attune.virtual.transient import transient_bytes, update_bytes

_GIB = 2.0**30


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """GiB of each stage, [n, P]."""

    built: Floats
    """Weights, gradients and master weights: allocated before the first step."""
    moments: Floats
    """Optimizer moments: allocated by the first optimizer step."""
    live: Floats
    """Activations in flight at their peak."""
    transient: Floats
    """Temporary buffers at the peak of a forward or backward pass."""
    update: Floats
    """Temporary buffers of the optimizer step."""
    unused: Floats
    """Reserved by the allocator but not allocated, at the peak."""
    outside: Floats
    """Outside the allocator: driver context, communicators, graphs, dispatcher."""

    @property
    def static(self) -> Floats:
        """What stays between steps, from the second step on."""
        return self.built + self.moments

    @property
    def allocated(self) -> Floats:
        """Peak of the allocator."""
        peak: Floats = self.static + np.maximum(self.live + self.transient, self.update)
        return peak

    @property
    def reserved(self) -> Floats:
        """Peak that the allocator holds."""
        return self.allocated + self.unused

    @property
    def device(self) -> Floats:
        """Peak of the device."""
        return self.reserved + self.outside


def stage_memory(setting: Setting, splits: StageSplits) -> Memory:
    """Memory of layouts that share PP and VPP."""
    hidden = setting.hidden
    built, moments = _static(setting, splits)
    chunks = _chunk_bytes(setting, splits)
    live = hidden.saved * _in_flight(setting, chunks) / _GIB
    transient = hidden.transient * transient_bytes(setting, splits) / _GIB
    interleaves = splits.exists.shape[1] > 1 and chunks.shape[2] > 1
    share = hidden.fragmentation_interleaved if interleaves else hidden.fragmentation
    return Memory(
        built=built / _GIB + _workspace_gib(setting),
        moments=moments / _GIB,
        live=live,
        transient=transient,
        update=update_bytes(setting, splits) / _GIB,
        unused=share * (live + transient),
        outside=_outside(setting, chunks, splits),
    )


def _static(setting: Setting, splits: StageSplits) -> tuple[Floats, Floats]:
    """Bytes of weights, gradients and masters, and of moments, [n, P] (megatron_lm 2.2)."""
    table, counts = setting.table, parameters_of(setting, splits)
    every = counts.dense + counts.expert
    each = setting.value_bytes
    master = 0.0 if each == 4 else np.where(table.precision_aware_optimizer, 2.0, 4.0)[:, None]
    # An offloaded share takes its moments along; masters stay (measured by Megatron-Bridge).
    moments = (8.0 * (1 - np.clip(table.optimizer_offload, 0, 1)))[:, None]
    return (each + setting.gradient_bytes) * every + master * counts.local, moments * counts.local


def _workspace_gib(setting: Setting) -> float:
    """Matrix-product workspaces of two threads (memory_model_notes 1.1)."""
    architecture = setting.network.cluster.gpu.architecture
    return {"cpu": 0.0, "ampere": 0.03}.get(architecture, 0.16)


def _chunk_bytes(setting: Setting, splits: StageSplits) -> Floats:
    """Saved bytes of one microbatch in each chunk, [n, P, V]."""
    model, table = setting.model, setting.table
    moe = splits.moe_layers(model)[splits.split].astype(np.float64)
    plain = splits.dense_layers(model)[splits.split].astype(np.float64)
    boundary = setting.sizes.own_tokens * model.hidden * setting.value_bytes
    saved = dense_saved(setting)
    chunks = plain * kept(setting, saved)[:, None, None]
    everything = plain * whole(setting, saved)[:, None, None]
    if model.experts is not None:
        even, uneven = expert_saved(setting)
        factor = over_layers(setting.busiest, moe.sum(axis=2), setting.hidden)
        layer = kept(setting, even)[:, None] + factor * kept(setting, uneven)[:, None]
        chunks = chunks + moe * layer[:, :, None]
        layer = whole(setting, even)[:, None] + factor * whole(setting, uneven)[:, None]
        everything = everything + moe * layer[:, :, None]
    layers = moe + plain
    number = np.maximum(table.recompute_layers, 1)[:, None, None]
    uniform = np.ceil(layers / number) * boundary[:, None, None]
    done = np.minimum(number, layers)
    block = done * boundary[:, None, None] + everything * (1 - done / np.maximum(layers, 1))
    is_block = (table.recompute_method == METHODS.index("block"))[:, None, None]
    chosen: Floats = np.where(
        fully(table)[:, None, None], np.where(is_block, block, uniform), chunks
    )
    return chosen


def _in_flight(setting: Setting, chunks: Floats) -> Floats:
    """Peak bytes of live passes on each stage, [n, P], as the schedule runs them."""
    rows, width, depth = chunks.shape
    peak = np.zeros((rows, width))
    bounded = np.minimum(setting.sizes.microbatches, 4 * max(width, 2))
    for number in np.unique(bounded).tolist():
        index = np.flatnonzero(bounded == number)
        plan = plan_schedule(width, depth, number)
        for stage, counts in enumerate(plan.live):
            peak[index, stage] = (chunks[index, stage] @ counts.T).max(axis=1)
    one = chunks.max(axis=2)
    more = setting.table.overlap_experts.astype(np.float64)
    more = more + 0.25 * setting.table.delayed_weight_gradients
    total: Floats = peak + more[:, None] * one
    return total


def _outside(setting: Setting, chunks: Floats, splits: StageSplits) -> Floats:
    table, sizes, hidden = setting.table, setting.sizes, setting.hidden
    if setting.on_cpu:
        return np.zeros(chunks.shape[:2])
    groups = [sizes.tp, sizes.cp, sizes.pp, sizes.pp, sizes.ep, sizes.etp]
    groups += [sizes.shards, sizes.expert_shards]
    number = 2.0 + sum((group > 1).astype(np.float64) for group in groups)
    flat = hidden.context_gib + hidden.communicator_gib * number
    flat = flat + hidden.dispatch_gib * ((table.dispatcher == 2) & (sizes.ep > 1))
    layers = splits.layers.sum(axis=2)[splits.split]
    graphs = hidden.graph_gib * layers * table.cuda_graphs[:, None]
    total: Floats = flat[:, None] + graphs
    return total
