"""What stands at the ends of the pipeline beside layers and head, where a stack asks for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attune.counts import StageParameters, weights
from attune.estimate.activations import LayerBytes
from attune.estimate.columns import Columns
from attune.estimate.in_flight import InFlight
from attune.estimate.stack import Stack
from attune.layout.table import Bools, Floats


def trained_parameters(
    columns: Columns, stack: Stack, counts: StageParameters, last: Bools
) -> StageParameters:
    """Parameters with learned positions and multi-token-prediction layers; `last` is [n, P]."""
    if not stack.learned_positions and not stack.mtp_layers:
        return counts
    model, tp = columns.model, columns.table.tp
    dense = counts.dense.copy()
    if stack.learned_positions:
        dense[:, 0] += columns.workload.row_tokens * model.hidden
    # One projection of two hidden states, and three norms, beside a whole layer. The stage has
    # its own embedding where the first stage is another.
    one = 2 * model.hidden**2 // tp + 3 * model.hidden
    layer = weights.moe_layer(model, tp) if model.experts else weights.dense_layer(model, tp)
    own = np.where(columns.pp > 1, weights.vocabulary_shard(model, tp), 0) * (stack.mtp_layers > 0)
    extra = stack.mtp_layers * (one + layer) + own.astype(np.int64)
    routed = stack.mtp_layers * weights.routed_experts(model, columns.table.ep, columns.table.etp)
    apart = columns.table.ep > 1
    dense = dense + last * (extra + np.where(apart, 0, routed))[:, None]
    expert = counts.expert + last * np.where(apart, routed, 0)[:, None]
    whole = counts.routed + last * (0 * columns.table.tp + routed)[:, None]
    return StageParameters(dense=dense, expert=expert, routed=whole)


def with_mtp(columns: Columns, stack: Stack, alive: InFlight) -> InFlight:
    """Layer passes in flight with those of the multi-token-prediction layers."""
    if not stack.mtp_layers:
        return alive
    passes = stack.mtp_layers * alive.head
    full = columns.full[:, None]
    kept, inputs = np.where(full, 0.0, passes), np.where(full, passes, 0.0)
    moe = bool(columns.model.experts)
    return replace(
        alive,
        dense=alive.dense + (0.0 if moe else kept),
        moe=alive.moe + (kept if moe else 0.0),
        checkpoints=alive.checkpoints + inputs,
    )


def end_bytes(columns: Columns, stack: Stack, alive: InFlight, layers: LayerBytes) -> Floats:
    """[n, P] bytes kept at the ends: dropout mask of the embedding, token ids, attention mask,
    final norm and logits of multi-token prediction, tensors received from another stage."""
    mask = 1.0 * stack.hidden_dropout * columns.sharded * columns.model.hidden
    ids = 8.0 * columns.tokens
    square = 1.0 * stack.attention_mask * columns.tokens * columns.workload.row_tokens
    first = alive.embedding * (mask + ids + square)[:, None]
    last = alive.head * np.where(columns.pp > 1, square, 0.0)[:, None]
    if stack.mtp_layers:
        shard = np.ceil(columns.model.vocabulary / (128 * columns.tp)) * 128
        logits = columns.width * columns.tokens * shard
        kept = (2.0 if stack.loss_copies > 2 else 1.0) * logits + 2 * layers.checkpoint
        last = last + (alive.head > 0) * stack.mtp_layers * kept[:, None]
    received = stack.boundary_tensors * layers.checkpoint[:, None]
    upstream = (alive.dense + alive.moe + alive.checkpoints > 0) | (alive.head > 0)
    upstream[:, 0] = False
    total: Floats = first + last + np.where(upstream, received, 0.0)
    return total
