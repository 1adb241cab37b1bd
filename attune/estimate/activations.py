"""Bytes that one layer keeps per microbatch until its backward pass.

Symbols of the formulas: q tokens of the rank, S sequence-parallel shards, r routed tokens.
Sources: tensors saved by megatron-core 0.16 with Transformer Engine, read from source and checked
on published per-rank peaks (see `attune.estimate.stack`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attune.estimate.columns import Columns
from attune.estimate.stack import Stack
from attune.layout.table import Bools, Floats


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerBytes:
    """Bytes kept by one layer and microbatch on one rank; every array is [n]."""

    dense: Floats
    """Layer with a dense MLP, after selective recompute."""
    moe: Floats
    """MoE layer, after selective recompute."""
    dense_working: Floats
    """What a full recompute of a dense layer brings back."""
    moe_working: Floats
    """What a full recompute of a MoE layer brings back."""
    mlp_recomputed: Floats
    """What selective recompute of `mlp` brings back in the backward pass of a dense layer."""
    moe_recomputed: Floats
    """What selective recompute of `moe` or `moe_act` brings back in that of a MoE layer."""
    dense_mlp: Floats
    """What the MLP of a dense layer keeps of it, gone when attention goes backward."""
    moe_mlp: Floats
    """The same of a MoE layer."""
    checkpoint: Floats
    """Input of one fully recomputed layer."""


def layer_bytes(columns: Columns, stack: Stack) -> LayerBytes:
    """Bytes that layers of both kinds keep."""
    none = np.zeros(len(columns.tp), dtype=np.bool_)
    recomputes = columns.table.recomputes
    attention = _attention(columns, stack, recomputes("core_attn"), recomputes("mla_up_proj"))
    working = _attention(columns, stack, none, none)
    norms = _norms(columns, recomputes("layernorm")) + _masks(columns, stack)
    dense, experts = _mlp(columns, stack, columns.model.ffn), _experts(columns, stack, none)
    selected = _experts(columns, stack, recomputes("moe_act"))
    selected -= np.where(recomputes("shared_experts"), _shared(columns, stack), 0.0)
    keeps_mlp, keeps_moe = ~recomputes("mlp"), ~recomputes("moe")
    return LayerBytes(
        dense=attention + norms + keeps_mlp * dense,
        moe=attention + norms + keeps_moe * selected,
        dense_working=working + _norms(columns, none) + _masks(columns, stack) + dense,
        moe_working=working + _norms(columns, none) + _masks(columns, stack) + experts,
        mlp_recomputed=dense * ~keeps_mlp,
        moe_recomputed=np.where(keeps_moe, experts - selected, experts),
        dense_mlp=keeps_mlp * dense,
        moe_mlp=keeps_moe * selected,
        checkpoint=columns.width * columns.sharded * columns.model.hidden,
    )


def _norms(columns: Columns, recomputed: Bools) -> Floats:
    """Inputs, outputs and statistics of the norms of a layer."""
    one = columns.width * columns.sharded * columns.model.hidden
    outputs = np.where(recomputed, 0.0, one * columns.kept_inputs)
    norms: Floats = columns.model.norms * (one + outputs + 4 * columns.sharded)
    return norms


def _masks(columns: Columns, stack: Stack) -> Floats:
    """Dropout masks after attention and MLP, one byte per element."""
    masks: Floats = 2.0 * stack.hidden_dropout * columns.sharded * columns.model.hidden
    return masks


def _attention(columns: Columns, stack: Stack, no_scores: Bools, no_up: Bools) -> Floats:
    model, q, width = columns.model, columns.tokens, columns.width
    latent = model.latent
    if latent is None:
        groups = np.maximum(model.query_groups, columns.tp)
        projected = width * q * (model.heads + 2 * groups) * model.head_dim / columns.tp
        output = width * q * model.heads * model.head_dim / columns.tp
        extra = np.zeros_like(q)
    else:
        key = latent.nope_dim + latent.rope_dim
        projected = width * q * model.heads * (2 * key + latent.value_dim) / columns.tp
        projected = np.where(no_up, 0.0, projected)
        output = width * q * model.heads * latent.value_dim / columns.tp
        ranks = (latent.q_rank or 0) + latent.kv_rank
        extra = width * columns.sharded * (ranks + latent.rope_dim + np.where(no_up, 0, ranks))
    total: Floats = projected + output + extra + _core(columns, stack, output, no_scores)
    if columns.kept_inputs < 1:
        # The projection keeps its input in FP8 beside the attention's own output.
        total = total + columns.kept_inputs * output
    if not stack.fused or (model.qk_norm and latent is None):
        # The norms of query and key keep their inputs beside the rotated outputs; so does a
        # rotary embedding out of place.
        groups = np.maximum(model.query_groups, columns.tp)
        total = total + width * q * (model.heads + groups) * model.head_dim / columns.tp
    return total + _indexer(columns)


def _core(columns: Columns, stack: Stack, output: Floats, no_scores: Bools) -> Floats:
    heads = columns.model.heads / columns.tp
    if not stack.flash:
        scores = columns.tokens * columns.workload.row_tokens * heads
        each = columns.width + stack.attention_dropout * (1 + columns.width)
        return np.where(no_scores, 0.0, each * scores)
    kept = 4 * columns.tokens * heads
    twice = (columns.cp > 1) & stack.context_output_kept
    kept = kept + np.where(stack.attention_copy & (columns.rows > 1), output, 0.0)
    return kept + np.where(twice, output, 0.0)


def _indexer(columns: Columns) -> Floats:
    """Chosen keys (int32) and the indexer's own query, averaged over all layers."""
    indexer, model = columns.model.indexer, columns.model
    if indexer is None:
        return np.zeros_like(columns.tokens)
    share = sum(map(indexer.computes, range(1, model.layers + 1))) / model.layers
    own = 2 * indexer.heads * indexer.dim + 2 * indexer.dim + 4 * indexer.top_k
    return columns.tokens * own * share


def _mlp(columns: Columns, stack: Stack, ffn: int) -> Floats:
    """Output of the first linear and input of the second."""
    units = (2 if columns.model.gated else 1) + columns.kept_inputs + (0 if stack.fused else 1)
    return columns.width * columns.tokens * units * ffn / columns.tp


def _shared(columns: Columns, stack: Stack) -> Floats:
    experts = columns.model.experts
    return _mlp(columns, stack, experts.shared_ffn if experts else 0)


def _experts(columns: Columns, stack: Stack, no_activation: Bools) -> Floats:
    """Router, dispatched tokens, expert MLP and shared experts of one MoE layer."""
    experts, model = columns.model.experts, columns.model
    if experts is None:
        return np.zeros_like(columns.tokens)
    routed, width = columns.routed, columns.width
    router = columns.sharded * experts.count * stack.router_bytes
    up = (2 if model.gated else 1) + (0 if stack.fused else 2)  # activation, probabilities
    hidden = width * routed * experts.ffn / columns.etp
    # Megatron fuses the routing probabilities into SwiGLU only: others keep the activation and
    # its product with them.
    copies = 2 if stack.fused and not model.gated else 1
    activation = np.where(no_activation, 0.0, copies * hidden * columns.kept_inputs)
    dispatched = width * routed * model.hidden * columns.kept_inputs
    return router + dispatched + up * hidden + activation + 4 * routed + _shared(columns, stack)
