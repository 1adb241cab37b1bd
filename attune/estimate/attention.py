"""Time of the attention core: flash, unfused, and sparse with an indexer."""

from __future__ import annotations

import numpy as np

from attune.estimate.columns import Columns
from attune.estimate.machine import Machine
from attune.estimate.operations import Passes
from attune.layout.table import Bools, Floats


def core_time(columns: Columns, machine: Machine, *, flash: bool) -> Passes:
    """Scores, softmax and weighted values of one layer and microbatch."""
    if columns.model.indexer is not None:
        return _sparse(columns, machine)
    return _flash(columns, machine) if flash else _unfused(columns, machine)


def head_sizes(columns: Columns) -> tuple[int, int]:
    """Sizes of a head's query (and key), and of its value."""
    model, latent = columns.model, columns.model.latent
    if latent is None:
        return model.head_dim, model.head_dim
    return latent.nope_dim + latent.rope_dim, latent.value_dim


def key_heads(columns: Columns) -> Floats:
    """Key and value heads of one tensor rank."""
    model = columns.model
    groups = model.heads if model.latent else model.query_groups
    heads: Floats = np.maximum(groups / columns.tp, 1.0)
    return heads


def _span(columns: Columns) -> float:
    """Keys that the average query attends to: the causal half, less where a window slides."""
    row, window = columns.workload.row_tokens, columns.model.window
    half = row / 2
    if window is None:
        return half
    share = columns.model.windowed_share
    return share * min(window, half) + (1 - share) * half


def _flash(columns: Columns, machine: Machine) -> Passes:
    query, value = head_sizes(columns)
    heads = columns.model.heads / columns.tp
    flops = 2 * columns.tokens * _span(columns) * heads * (query + value)
    # Under 128 per head the exponentials of the softmax bound a GPU (FlashAttention-3, 3.1).
    share = min(1.0, (query + value) / 256) if machine.tiled else 1.0
    rate = machine.peak * machine.attention * share
    traffic = 2 * columns.tokens * (heads + key_heads(columns)) * (query + value) / machine.memory
    forward = flops / rate + traffic + machine.kernel_s
    backward = 2.5 * flops / (rate * machine.attention_backward) + 4 * traffic
    return Passes(forward, backward + 2 * machine.kernel_s)


def _unfused(columns: Columns, machine: Machine) -> Passes:
    """The full square, and about 13 and 17 bytes of traffic per score (twice that in float32)."""
    query, value = head_sizes(columns)
    heads = columns.model.heads / columns.tp
    scores = columns.tokens * columns.workload.row_tokens * heads
    flops = 2 * scores * (query + value)
    rate = machine.peak * machine.attention
    traffic = columns.width / 2 * scores / machine.memory
    traffic = traffic * np.where(fused_softmax(columns), 1.0, machine.softmax)
    forward = flops / rate + 13 * traffic + 5 * machine.kernel_s
    backward = 2 * flops / rate + 17 * traffic + 8 * machine.kernel_s
    return Passes(forward, backward)


def fused_softmax(columns: Columns) -> Bools:
    """Whether Megatron's fused softmax kernel takes the scores: short rows, and a multiple of
    four matrices (its `is_kernel_available`)."""
    matrices = np.round(columns.rows * columns.model.heads / columns.tp)
    short = columns.workload.row_tokens <= 2048
    fused: Bools = (matrices % 4 == 0) & short
    return fused


def _sparse(columns: Columns, machine: Machine) -> Passes:
    """The chosen keys in latent space, and the indexer's scores over the causal half."""
    model, indexer, latent = columns.model, columns.model.indexer, columns.model.latent
    assert indexer is not None
    query, value = head_sizes(columns)
    if latent is not None:
        query, value = latent.kv_rank + latent.rope_dim, latent.kv_rank
    keys = min(float(indexer.top_k), _span(columns))
    flops = 2 * columns.tokens * keys * model.heads / columns.tp * (query + value)
    share = sum(map(indexer.computes, range(1, model.layers + 1))) / model.layers
    scoring = 2 * columns.tokens * _span(columns) * indexer.heads * indexer.dim * share
    rate = machine.peak * machine.attention
    forward = (flops + scoring) / rate + 3 * machine.kernel_s
    return Passes(forward, 2.5 * flops / (rate * machine.attention_backward) + scoring / rate)
