"""Weights, gradients, optimizer and workspaces: what a rank holds whatever the microbatch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attune.catalog import Model
from attune.counts import StageParameters
from attune.counts.weights import vocabulary_shard
from attune.estimate.columns import Columns
from attune.estimate.stack import Stack
from attune.layout.table import Bools, Floats


@dataclass(frozen=True, kw_only=True, slots=True)
class States:
    """Bytes of one rank of each stage; every array is [n, P]."""

    weights: Floats
    gradients: Floats
    optimizer: Floats
    step: Floats
    """Extra bytes while the optimizer steps."""
    host: Floats
    """Host bytes of one rank."""
    workspace: Floats


@dataclass(frozen=True, kw_only=True, slots=True)
class Stages:
    """What stands on each stage; every array is [n, P]."""

    exists: Bools
    dense: Bools
    """Has a layer with a dense MLP."""
    moe: Bools
    """Has a MoE layer."""
    last: Bools
    """Holds the head."""


def states(columns: Columns, stack: Stack, counts: StageParameters, stages: Stages) -> States:
    """States of one rank per stage.

    Bytes per parameter: bf16 weights 2, gradients 4 or 2, optimizer 12 over its shards
    (megatron-core distributed optimizer); fp32: 4, 4, 8.
    """
    whole = columns.workload.precision == "fp32"
    ranks = np.maximum(columns.dp * columns.cp / stack.optimizer_instances, 1.0)
    shards = np.where(columns.table.distributed_optimizer, ranks, 1.0)[:, None]
    expert_shards = np.where(columns.table.distributed_optimizer, columns.edp, 1.0)[:, None]
    # With the distributed optimizer the buffer ends on a multiple of 128 x shards.
    dense = np.where(
        columns.table.distributed_optimizer[:, None],
        np.ceil(counts.dense / (128 * shards)) * 128 * shards,
        counts.dense,
    )
    sharded = dense / shards + counts.expert / expert_shards
    total: Floats = (dense + counts.expert).astype(np.float64)
    gradient_bytes = 4 if whole or columns.workload.gradient_precision == "fp32" else 2
    return States(
        weights=total * columns.width + _quantized(columns, stack, counts, stages),
        gradients=total * (gradient_bytes + 2.0 * stack.low_gradients),
        optimizer=sharded * _optimizer_bytes(columns, stack)[:, None],
        step=sharded * (0.0 if gradient_bytes == 4 else 4.0),
        # Pinned float32 and bf16 copies, gradients and both moments of the offloaded share.
        host=16.0 * sharded * columns.table.optimizer_offload[:, None]
        + 2.0 * stack.host_weight_copies * total,
        workspace=_workspace(columns, stack, stages)
        + stack.state_copies * columns.width * (total + sharded),
    )


def _quantized(columns: Columns, stack: Stack, counts: StageParameters, stages: Stages) -> Floats:
    """Bytes that FP8 copies of the linears' weights add to bf16 ones, or save in their place.

    Hopper multiplies FP8 by rows only and keeps a transposed copy beside the first; blocks
    with scales of their own (MXFP8) are cast once along rows and once along columns.
    """
    if columns.workload.precision != "fp8":
        return np.zeros(counts.dense.shape)
    hopper = columns.cluster.gpu.architecture == "hopper"
    copies = 1.0 if stack.tensorwise and not hopper else 2.0
    change = copies - (columns.width if stack.quantized_weights else 0.0)
    ends = vocabulary_shard(columns.model, columns.table.tp)[:, None]
    linears = counts.dense + counts.expert - ends * stages.last
    linears[:, 0] -= ends[:, 0]
    bytes_: Floats = change * np.maximum(linears, 0)
    return bytes_


def _optimizer_bytes(columns: Columns, stack: Stack) -> Floats:
    """Bytes per parameter before sharding, what is left on the GPU under offload.

    Offload moves the moments: 15.3 GB measured against 8 bytes of 12 (Megatron-Bridge PR 3062).
    """
    master = 0.0 if columns.workload.precision == "fp32" else 4.0
    offload = columns.table.optimizer_offload
    # TE's precision-aware optimizer keeps 16 remainder bits instead of a float32 master.
    remainders = columns.table.precision_aware_optimizer & (offload == 0) & (master > 0)
    return np.where(remainders, 2.0, master) + 2 * stack.moment_bytes * (1 - offload)


def _workspace(columns: Columns, stack: Stack, stages: Stages) -> Floats:
    base = np.where(stages.moe | stages.last, stack.workspace_bytes, stack.engine_workspace_bytes)
    exchanges = (columns.tp > 1) | (columns.ep > 1)
    base = base + np.where(exchanges, stack.exchange_bytes, 0.0)[:, None]
    workspace: Floats = base + np.where(stages.moe, stack.grouped_workspace_bytes, 0.0)
    if stack.score_buffer:
        scores = columns.width * columns.tokens * columns.workload.row_tokens
        workspace = workspace + (scores * columns.model.heads / columns.tp)[:, None]
    if stack.dummy_gradients:
        attention, experts, dense = _weight_shapes(columns)
        workspace = workspace + np.where(stages.dense | stages.moe, attention[:, None], 0.0)
        workspace = workspace + np.where(stages.moe, experts[:, None], 0.0)
        workspace = workspace + np.where(stages.dense, dense[:, None], 0.0)
    return workspace


def _weight_shapes(columns: Columns) -> tuple[Floats, Floats, Floats]:
    """Bytes of one weight of each distinct shape: attention, experts, dense MLP; each [n]."""
    model, tp, width = columns.model, columns.tp, columns.width
    mlp = (3 if model.gated else 2) * model.hidden
    attention = width * _attention_shapes(model, tp)
    experts = np.zeros_like(tp)
    if model.experts:
        routed = model.experts.ffn / columns.etp
        shared = model.experts.shared_ffn / tp
        experts = width * mlp * (routed + np.where(shared == routed, 0.0, shared))
    return attention, experts, width * mlp * model.ffn / tp


def _attention_shapes(model: Model, tp: Floats) -> Floats:
    latent = model.latent
    if latent is None:
        qkv = model.hidden * (model.heads + 2 * model.query_groups) * model.head_dim / tp
        return qkv + model.heads * model.head_dim * model.hidden / tp
    query = model.heads * (latent.nope_dim + latent.rope_dim) / tp
    up = query * (latent.q_rank or model.hidden)
    up = up + model.heads * (latent.nope_dim + latent.value_dim) / tp * latent.kv_rank
    down = model.hidden * ((latent.q_rank or 0) + latent.kv_rank + latent.rope_dim)
    return up + down + model.heads * latent.value_dim / tp * model.hidden
