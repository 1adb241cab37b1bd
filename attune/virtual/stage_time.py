"""Seconds of every pass of every stage, and of what crosses between stages and replicas."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attune.layout import StageSplits
from attune.layout.table import METHODS, Bools, Floats
from attune.virtual.draws import generator
from attune.virtual.expert_parts import expert_layer_parts
from attune.virtual.layer import LayerTime, fully, layer_time
from attune.virtual.parameters import parameters_of
from attune.virtual.parts import dense_parts
from attune.virtual.setting import Setting


@dataclass(frozen=True, kw_only=True, slots=True)
class StageTime:
    """One step's pieces of n layouts with the same PP and VPP."""

    durations: Floats
    """[2, V, P, n] seconds of each forward and backward pass."""
    delays: Floats
    """[P, n] seconds across each boundary."""
    reduction: Floats
    """[P, n] seconds of the gradient reduction that follow the last backward."""
    update: Floats
    """[P, n] seconds of the optimizer, the host's share included."""
    gathering: Floats
    """[P, n] seconds of the parameter gather that precede the first forward."""


def stage_time(setting: Setting, splits: StageSplits, seed: tuple[object, ...]) -> StageTime:
    """Pieces of the step for layouts that share PP and VPP.

    Args:
        setting: the layouts and the cluster.
        splits: their stage splits.
        seed: names the draw of the nodes' speeds.
    """
    send = _sends(setting, splits)
    durations = _durations(setting, splits, send) * _slowness(setting, seed)
    reduction, update, gathering = _data_parallel(setting, splits, durations)
    return StageTime(
        durations=durations,
        delays=send,
        reduction=reduction,
        update=update,
        gathering=gathering,
    )


def layer_passes(setting: Setting) -> dict[str, tuple[Floats, Floats]]:
    """[n] seconds forward and backward of one layer of each kind, and of the head."""
    one = np.ones_like(setting.sizes.tokens)
    dense = layer_time(setting, dense_parts(setting))
    passes = {"dense": (dense.forward, _backward(setting, dense, one)), "head": _head(setting)}
    if setting.model.experts is not None:
        expert = layer_time(setting, expert_layer_parts(setting))
        passes["moe"] = (expert.forward, _backward(setting, expert, one))
    return passes


def _durations(setting: Setting, splits: StageSplits, send: Floats) -> Floats:
    model, sizes = setting.model, setting.sizes
    moe = splits.moe_layers(model)[splits.split].T.astype(np.float64)
    plain = splits.dense_layers(model)[splits.split].T.astype(np.float64)
    depth, width, rows = moe.shape
    durations = np.zeros((2, depth, width, rows)) + setting.hidden.microbatch_us * 1e-6
    dense = layer_time(setting, dense_parts(setting))
    durations[0] += plain * dense.forward
    durations[1] += plain * _backward(setting, dense, moe + plain)
    if model.experts is not None:
        expert = layer_time(setting, expert_layer_parts(setting))
        durations[0] += moe * expert.forward
        durations[1] += moe * _backward(setting, expert, moe + plain)
    forward, backward = _head(setting)
    durations[0, -1, -1] += forward
    durations[1, -1, -1] += backward
    embedding = setting.kernels.elementwise(2.0 * sizes.tokens * model.hidden * setting.value_bytes)
    durations[:, 0, 0] += embedding + setting.tensor_traffic(1)
    if depth == 1 and width > 1:
        durations += setting.hidden.blocking * send[:1]
    return durations


def _backward(setting: Setting, layer: LayerTime, layers: Floats) -> Floats:
    """Backward of one layer of each chunk, [V, P, n]: block recompute repeats only some."""
    table = setting.table
    block = (table.recompute_method == METHODS.index("block")) & (table.recompute_layers > 0)
    some = np.minimum(table.recompute_layers, layers) / np.maximum(layers, 1)
    share = np.where(fully(table), np.where(block, some, 1.0), 0.0)
    seconds: Floats = layer.backward + share * layer.again
    return seconds


def _head(setting: Setting) -> tuple[Floats, Floats]:
    """Final norm, head and loss: 18 bytes a logit without fusion (time_model_notes 1.1)."""
    model, sizes = setting.model, setting.sizes
    vocabulary = setting.vocabulary
    forward, backward = setting.linear(sizes.tokens, model.hidden, vocabulary)
    loss = setting.kernels.elementwise(9.0 * sizes.tokens * vocabulary)
    traffic = setting.tensor_traffic(1)
    return forward + loss + traffic, backward + loss + 2 * traffic


def _sends(setting: Setting, splits: StageSplits) -> Floats:
    """[P, n] seconds of one activation across each boundary, the last of which wraps around."""
    sizes, width = setting.sizes, splits.exists.shape[1]
    per_node = setting.network.cluster.per_node
    stage = np.arange(width)[:, None]
    node = np.floor(stage * sizes.stage_ranks / per_node)
    after = np.floor((stage + 1) % width * sizes.stage_ranks / per_node)
    sent = sizes.tokens / sizes.tp * setting.model.hidden * setting.value_bytes
    return setting.network.send(sent, (node != after).astype(np.float64))


def _slowness(setting: Setting, seed: tuple[object, ...]) -> Floats:
    """[P, n] a stage waits for its slowest node."""
    cluster, sizes = setting.network.cluster, setting.sizes
    random = generator("nodes", *seed)
    spread = setting.hidden.straggling
    speeds = np.exp(spread * np.abs(random.normal(size=max(cluster.nodes, 1))))
    width = int(sizes.pp.max())
    rank = np.arange(width + 1) * (cluster.count / width)
    first = np.floor(rank[:-1] / cluster.per_node).astype(int)
    last = np.ceil(rank[1:] / cluster.per_node).astype(int)
    slowest = [
        float(speeds[min(a, len(speeds) - 1) : max(b, a + 1)].max())
        for a, b in zip(first, last, strict=True)
    ]
    stages: Floats = np.repeat(np.array(slowest)[:, None], len(sizes.pp), axis=1)
    return stages


def _data_parallel(
    setting: Setting, splits: StageSplits, durations: Floats
) -> tuple[Floats, Floats, Floats]:
    table, sizes, network = setting.table, setting.sizes, setting.network
    counts = parameters_of(setting, splits)
    dense, expert = counts.dense.T, counts.expert.T
    replicas = network.group(sizes.shards, sizes.tp)
    expert_replicas = network.group(sizes.expert_shards, sizes.etp * sizes.ep)
    moved = network.ring(dense, replicas) + network.ring(expert, expert_replicas)
    each = setting.gradient_bytes
    sharded = table.distributed_optimizer
    reduction = np.where(sharded, each, 2 * each) * moved
    gathering = np.where(sharded, setting.value_bytes, 0) * moved
    last_backward, first_forward = durations[1].sum(axis=0), durations[0].sum(axis=0)
    return (
        _shown(setting, reduction, last_backward, table.overlap_gradients),
        _update(setting, counts.local.T),
        _shown(setting, gathering, first_forward, table.overlap_parameters),
    )


def _shown(setting: Setting, traffic: Floats, cover: Floats, overlaps: Bools) -> Floats:
    """Traffic that shows beside compute `cover`, and the toll of what hides."""
    hides = setting.hidden.data_hiding * np.minimum(traffic, cover) * overlaps
    shown: Floats = traffic - hides + setting.hidden.overlap_toll * hides
    return shown


def _update(setting: Setting, local: Floats) -> Floats:
    """The optimizer on the device, then its offloaded share on the host."""
    table, hidden = setting.table, setting.hidden
    offload = np.clip(table.optimizer_offload, 0, 1)
    each = hidden.optimizer_bytes * np.where(table.precision_aware_optimizer, 0.93, 1.0)
    device = setting.kernels.moved(each * local * (1 - offload))
    # Gradients go down in float32, weights come back in bfloat16 (hybrid_optimizer.py).
    copies = 6 * local * offload / (hidden.host_link_gbps * 1e9)
    # Overlap gains about 7 % of the whole step (Megatron-Bridge, optimizer offload).
    host = (local * offload / hidden.host_adam_rate + copies) * np.where(
        table.overlap_offload, 0.91, 1.0
    )
    seconds: Floats = device + host
    return seconds
