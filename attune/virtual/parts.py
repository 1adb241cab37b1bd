"""Parts of a layer: what each costs on the device, on the host and on the links."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attune.catalog import Model
from attune.layout.table import Floats
from attune.virtual.setting import Setting


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One part of a layer and microbatch, seconds [n]."""

    forward: Floats
    backward: Floats
    exposed: Floats
    """Communication of the forward pass that nothing hides."""
    exposed_backward: Floats
    launches: Floats
    """Kernels of the forward pass."""


def dense_parts(setting: Setting) -> dict[str, Part]:
    """Parts of a layer with a dense MLP, by name."""
    parts = attention_parts(setting)
    parts["mlp"] = _mlp(setting, setting.model.ffn)
    return parts


def attention_parts(setting: Setting) -> dict[str, Part]:
    """Norms, projections and core of attention, by name."""
    parts = {"layernorm": _norms(setting), "core_attn": _core(setting)}
    parts["projections"], up = _projections(setting)
    if up is not None:
        parts["mla_up_proj"] = up
    return parts


def _norms(setting: Setting) -> Part:
    """Norms and two residual sums: 20 and 26 bytes per value (time_model_notes 1.1)."""
    values = setting.sizes.own_tokens * setting.model.hidden * setting.value_bytes / 2
    zero, more = np.zeros_like(values), setting.model.norms - 2
    return Part(
        forward=setting.kernels.elementwise((20 + 4 * more) * values),
        backward=setting.kernels.elementwise((26 + 6 * more) * values),
        exposed=zero,
        exposed_backward=zero,
        launches=zero + 6 + more,
    )


def _projections(setting: Setting) -> tuple[Part, Part | None]:
    model, sizes = setting.model, setting.sizes
    latent, hidden = model.latent, model.hidden
    up = None
    if latent is None:
        width = (model.heads + 2 * model.query_groups) * model.head_dim / sizes.tp
        pair = setting.linear(sizes.tokens, hidden, width)
        out = setting.linear(sizes.tokens, model.heads * model.head_dim / sizes.tp, hidden)
    else:
        down = (latent.q_rank or 0) + latent.kv_rank + latent.rope_dim
        pair = setting.linear(sizes.own_tokens, hidden, down)
        out = setting.linear(sizes.tokens, model.heads * latent.value_dim / sizes.tp, hidden)
        up = _up_projection(setting)
    zero = np.zeros_like(sizes.tokens)
    rest = Part(
        forward=pair[0] + out[0],
        backward=pair[1] + out[1],
        exposed=setting.tensor_traffic(2),
        exposed_backward=setting.tensor_traffic(2) + setting.gathers_again(),
        launches=zero + 7 + 4 * (sizes.tp > 1),
    )
    return rest, up


def _up_projection(setting: Setting) -> Part:
    model, sizes, latent = setting.model, setting.sizes, setting.model.latent
    assert latent is not None
    query = model.heads * (latent.nope_dim + latent.rope_dim) / sizes.tp
    key_value = model.heads * (latent.nope_dim + latent.value_dim) / sizes.tp
    first = setting.linear(sizes.tokens, latent.q_rank or model.hidden, query)
    second = setting.linear(sizes.tokens, latent.kv_rank, key_value)
    copies = setting.kernels.elementwise(6.0 * sizes.tokens * (query + key_value))
    zero = np.zeros_like(sizes.tokens)
    return Part(
        forward=first[0] + second[0] + copies,
        backward=first[1] + second[1] + 1.3 * copies,
        exposed=zero,
        exposed_backward=zero,
        launches=zero + 8,
    )


def _core(setting: Setting) -> Part:
    model, sizes, kernels = setting.model, setting.sizes, setting.kernels
    query, value, keys_kept = head_widths(model)
    split = 1 + setting.hidden.context_loss * np.log2(sizes.cp)
    operations = (
        split * 2 * sizes.tokens * _mean_keys(setting) * model.heads / sizes.tp * (query + value)
    )
    rotary = kernels.elementwise(8.0 * sizes.tokens * query * (model.heads + keys_kept) / sizes.tp)
    forward = kernels.attention(operations, backward=False) + rotary
    # The backward core has five products to the forward's two (FlashAttention-2, section 3.1).
    backward = kernels.attention(2.5 * operations, backward=True) + rotary
    forward = forward + _indexing(setting)
    pair = (query + value) * np.maximum(keys_kept / sizes.tp, 1)
    whole = sizes.cp * sizes.tokens * pair * setting.value_bytes
    exchange = setting.network.ring(whole, setting.network.group(sizes.cp, sizes.tp))
    return Part(
        forward=forward,
        backward=backward,
        exposed=_uncovered(setting, exchange, forward),
        exposed_backward=_uncovered(setting, 2 * exchange, backward),
        launches=np.zeros_like(forward) + 8 + 6 * (sizes.cp > 1) * sizes.cp,
    )


def head_widths(model: Model) -> tuple[int, int, int]:
    """Width of query and value per head, and the heads of keys that exist."""
    latent = model.latent
    if latent is None:
        return model.head_dim, model.head_dim, model.query_groups
    return latent.nope_dim + latent.rope_dim, latent.value_dim, model.heads


def _mean_keys(setting: Setting) -> float:
    """Keys that a query attends to, mean over positions and layers."""
    row = setting.workload.row_tokens
    causal = row / 2
    if setting.model.indexer is not None:
        return min(causal, float(setting.model.indexer.top_k))
    if setting.model.window is not None:
        share = setting.model.windowed_share
        return (1 - share) * causal + share * min(causal, float(setting.model.window))
    return causal


def _indexing(setting: Setting) -> Floats:
    indexer = setting.model.indexer
    if indexer is None:
        return np.zeros_like(setting.sizes.tokens)
    scores = setting.sizes.tokens * setting.workload.row_tokens / 2 * indexer.heads
    share = 1.0 / indexer.frequency
    return setting.kernels.attention(2 * scores * indexer.dim * share, backward=False)


def _uncovered(setting: Setting, exchange: Floats, core: Floats) -> Floats:
    """Context-parallel exchange that the core does not hide."""
    least = setting.hidden.context_exposed * exchange
    shown: Floats = np.maximum(least, exchange - 0.9 * core)
    return shown


def _mlp(setting: Setting, ffn: int) -> Part:
    model, sizes = setting.model, setting.sizes
    first = setting.linear(sizes.tokens, model.hidden, setting.wide * ffn / sizes.tp)
    second = setting.linear(sizes.tokens, ffn / sizes.tp, model.hidden)
    activation = activation_time(setting, sizes.tokens * ffn / sizes.tp)
    return Part(
        forward=first[0] + second[0] + activation,
        backward=first[1] + second[1] + 1.6 * activation,
        exposed=setting.tensor_traffic(2),
        exposed_backward=setting.tensor_traffic(2) + setting.gathers_again(),
        launches=np.zeros_like(activation) + 5 + 4 * (sizes.tp > 1),
    )


def shared_expert(setting: Setting, ffn: int) -> Part:
    """The shared experts of a MoE layer: an MLP of their joint size."""
    return _mlp(setting, ffn)


def activation_time(setting: Setting, values: Floats) -> Floats:
    """The activation function: reads gate and up, writes one value."""
    return setting.kernels.elementwise((setting.wide + 1) * setting.value_bytes * values)
