"""Time of the linears and elementwise work of a layer, apart from the attention core."""

from __future__ import annotations

import numpy as np

from attune.estimate.attention import head_sizes, key_heads
from attune.estimate.columns import Columns
from attune.estimate.machine import Machine
from attune.estimate.operations import Passes, elementwise, grouped, linear
from attune.layout.table import Floats


def attention_linears(columns: Columns, machine: Machine) -> Passes:
    """Projections before and after the attention core."""
    model, tp, m = columns.model, columns.tp, columns.tokens
    latent, hidden = model.latent, float(model.hidden)
    query, value = head_sizes(columns)
    output = linear(columns, machine, m, hidden, model.heads * value / tp)
    if latent is None:
        width = model.heads * query / tp + 2 * key_heads(columns) * query
        return output + linear(columns, machine, m, width, hidden)
    own = columns.sharded
    down = linear(columns, machine, own, float(latent.kv_rank + latent.rope_dim), hidden)
    if latent.q_rank:
        down = down + linear(columns, machine, own, float(latent.q_rank), hidden)
    key_value = model.heads * (latent.nope_dim + latent.value_dim) / tp
    up = linear(columns, machine, m, key_value, float(latent.kv_rank))
    return (
        output
        + down
        + up
        + linear(columns, machine, m, model.heads * query / tp, float(latent.q_rank or hidden))
    )


def attention_elementwise(columns: Columns, machine: Machine) -> Passes:
    """Norms, residuals and rotary embedding of a layer.

    20 and 26 bytes per token and hidden, with 4 and 6 for each norm beyond the usual two.
    """
    query, _ = head_sizes(columns)
    width = columns.width / 2
    rotary = (
        6 * width * columns.tokens * query * (columns.model.heads / columns.tp + key_heads(columns))
    )
    base = columns.sharded * columns.model.hidden * width
    more = columns.model.norms - 2
    forward, backward = (20 + 4 * more) * base + rotary, (26 + 6 * more) * base + rotary
    return elementwise(machine, forward, backward, 6 + more)


def mlp(columns: Columns, machine: Machine, ffn: int) -> Passes:
    """A (dense or shared) MLP; nothing where `ffn` is 0."""
    if not ffn:
        return Passes(np.zeros_like(columns.tp), np.zeros_like(columns.tp))
    model, m, shard = columns.model, columns.tokens, ffn / columns.tp
    gate = 2.0 if model.gated else 1.0
    up = linear(columns, machine, m, gate * shard, float(model.hidden))
    down = linear(columns, machine, m, float(model.hidden), shard)
    return up + down + activation(columns, machine, m * shard)


def activation(columns: Columns, machine: Machine, elements: Floats) -> Passes:
    """The MLP's activation over so many hidden elements."""
    gate = 2.0 if columns.model.gated else 1.0
    width = float(columns.width)
    return elementwise(machine, width * (gate + 1) * elements, width * (2 * gate + 1) * elements, 1)


def experts(columns: Columns, machine: Machine) -> Passes:
    """Router, permutation, grouped expert MLP and shared experts."""
    moe, model = columns.model.experts, columns.model
    assert moe is not None
    local = np.maximum(moe.count / columns.ep, 1.0)
    m, shard = np.maximum(columns.awaited / local, 1.0), moe.ffn / columns.etp
    gate = 2.0 if model.gated else 1.0
    hidden = np.full_like(m, float(model.hidden))
    up = grouped(columns, machine, m, gate * shard, hidden, local)
    down = grouped(columns, machine, m, hidden, shard, local)
    # The router's narrow output reaches about a third of a large GEMM's rate.
    router = linear(
        columns, machine, columns.sharded, float(moe.count), float(model.hidden), head=True
    ).scaled(3.0)
    moved = columns.width * columns.awaited * model.hidden
    moved = moved * np.where(columns.uses("flex"), 0.7, 1.0)
    permuted = elementwise(machine, 6 * moved, 7 * moved, 20)
    activated = activation(columns, machine, columns.awaited * shard)
    total = up + down + router + permuted + activated + shared(columns, machine)
    return total + _biases(columns, machine, shard) if model.mlp_bias else total


def _biases(columns: Columns, machine: Machine, shard: Floats) -> Passes:
    """Biases and clamps of gpt-oss's experts, which megatron-core computes outside its kernels.

    The bias of the second linear is scaled by the routing probability and added expert by expert in
    float32, joined and cast: 28 bytes per output element forward and 30 backward. Both halves of
    the first linear's output are clamped and joined: 16 and 36 bytes per element of one half
    (tensors counted in `TEGroupedMLP._apply_bias` and `weighted_bias_quick_geglu_impl`).
    """
    outputs = columns.awaited * columns.model.hidden
    halves = columns.awaited * shard
    return elementwise(machine, 28 * outputs + 16 * halves, 30 * outputs + 36 * halves, 8)


def shared(columns: Columns, machine: Machine) -> Passes:
    """All shared experts."""
    moe = columns.model.experts
    return mlp(columns, machine, moe.shared_ffn if moe else 0)
