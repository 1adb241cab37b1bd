"""Temporary buffers at the peaks of forward, loss, backward and optimizer step."""

from __future__ import annotations

import numpy as np

from attune.layout import StageSplits
from attune.layout.table import DISPATCHERS, Floats
from attune.virtual.layer import fully
from attune.virtual.parameters import parameters_of
from attune.virtual.saved import dense_saved, expert_saved, kept, whole
from attune.virtual.setting import Setting

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
    if setting.gradient_bytes == 4:
        return np.zeros(splits.exists[splits.split].shape)
    copied: Floats = 4.0 * parameters_of(setting, splits).local
    return copied


def _dense_layer(setting: Setting) -> Floats:
    """Backward of an MLP: the output gradient, the gathered input, the wide gradient."""
    model, sizes = setting.model, setting.sizes
    wide = sizes.tokens * setting.wide * model.ffn / sizes.tp
    each = setting.value_bytes
    working = each * (sizes.own_tokens * model.hidden + sizes.tokens * model.hidden + wide)
    repeated: Floats = working + _recomputed(setting, dense_saved(setting))
    return repeated


def _expert_layer(setting: Setting) -> Floats:
    """Forward of a MoE layer: four copies of the routed tokens are alive at once."""
    model, sizes = setting.model, setting.sizes
    each = setting.value_bytes
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
    scale = setting.value_bytes / 2
    vocabulary = setting.vocabulary
    loss = 10.0 * sizes.tokens * vocabulary
    backward = 4.0 * sizes.tokens * vocabulary + 2.0 * model.hidden * vocabulary
    backward = backward + 4.0 * sizes.tokens * model.hidden
    peak: Floats = scale * np.maximum(loss, backward)
    return peak
