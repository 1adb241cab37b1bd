"""Temporary buffers at the peaks of forward, loss, backward and optimizer step."""

from __future__ import annotations

import numpy as np

from attune.counts import stage_parameters
from attune.layout import StageSplits
from attune.layout.table import DISPATCHERS, Floats
from attune.virtual.layer import fully
from attune.virtual.parts import Setting
from attune.virtual.saved import dense_saved, expert_saved, kept, whole
from attune.virtual.sizes import value_bytes

_ALLGATHER = DISPATCHERS.index("allgather")


def transient_bytes(setting: Setting, splits: StageSplits) -> Floats:
    """Largest temporary bytes of any pass of each stage, [n, P] (memory_model_notes 1.4)."""
    model = setting.model
    moe = splits.moe_layers(model).sum(axis=2)[splits.split] > 0
    plain = splits.dense_layers(model).sum(axis=2)[splits.split] > 0
    largest = np.where(plain, _dense_layer(setting)[:, None], 0.0)
    if model.experts is not None:
        largest = np.maximum(largest, np.where(moe, _expert_layer(setting)[:, None], 0.0))
    last = np.zeros_like(largest)
    last[:, -1] = _loss(setting)
    bytes_: Floats = np.maximum(largest, last)
    return bytes_


def update_bytes(setting: Setting, splits: StageSplits) -> Floats:
    """Temporary bytes of the optimizer step: a float32 copy of bfloat16 gradients, [n, P]."""
    counts = stage_parameters(setting.model, setting.table, splits)
    sharded = setting.table.distributed_optimizer
    local = counts.dense / np.where(sharded, setting.sizes.shards, 1.0)[:, None]
    local = local + counts.expert / np.where(sharded, setting.sizes.expert_shards, 1.0)[:, None]
    copied: Floats = local * (0.0 if setting.workload.gradient_precision == "fp32" else 4.0)
    return copied


def _dense_layer(setting: Setting) -> Floats:
    """Backward of an MLP: the output gradient, the gathered input, the wide gradient."""
    model, sizes = setting.model, setting.sizes
    gated = 2 if model.gated else 1
    wide = sizes.tokens * gated * model.ffn / sizes.tp
    each = value_bytes(setting.workload)
    working = each * (sizes.own_tokens * model.hidden + sizes.tokens * model.hidden + wide)
    repeated: Floats = working + _recomputed(setting, dense_saved(setting))
    return repeated


def _expert_layer(setting: Setting) -> Floats:
    """Forward of a MoE layer: four copies of the routed tokens are alive at once."""
    model, sizes = setting.model, setting.sizes
    each = value_bytes(setting.workload)
    routed = sizes.routed_tokens * setting.busiest * model.hidden
    working = each * (4 * routed + sizes.own_tokens * model.hidden)
    gathered = each * sizes.own_tokens * sizes.ep * sizes.etp * model.hidden
    working = working + np.where(setting.table.dispatcher == _ALLGATHER, gathered, 0.0)
    beside = each * sizes.tokens * model.hidden * setting.table.overlap_shared_experts
    even, uneven = expert_saved(setting)
    total: Floats = working + beside + _recomputed(setting, even)
    return total + setting.busiest * _recomputed(setting, uneven)


def _recomputed(setting: Setting, saved: dict[str, Floats]) -> Floats:
    """What recompute brings back of a layer, or of the layers between two checkpoints."""
    number = np.where(
        setting.table.recompute_method == 1, np.maximum(setting.table.recompute_layers, 1), 1
    )
    everything = whole(setting, saved)
    back: Floats = np.where(
        fully(setting.table), number * everything, everything - kept(setting, saved)
    )
    return back


def _loss(setting: Setting) -> Floats:
    """Logits, their float32 copies and the head's weight gradient on the last stage."""
    model, sizes = setting.model, setting.sizes
    scale = value_bytes(setting.workload) / 2
    vocabulary = -(-model.vocabulary // (128 * sizes.tp)) * 128
    loss = 10.0 * sizes.tokens * vocabulary
    backward = 4.0 * sizes.tokens * vocabulary + 2.0 * model.hidden * vocabulary
    backward = backward + 4.0 * sizes.tokens * model.hidden
    peak: Floats = scale * np.maximum(loss, backward)
    return peak
