"""Exact parameters of every stage and rank, of the whole model, and active per token."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attune.catalog import Model
from attune.counts import weights
from attune.layout import Layout, LayoutTable, StageSplits, stage_splits
from attune.layout.table import Bools, Ints


@dataclass(frozen=True, kw_only=True, slots=True)
class StageParameters:
    """Parameters on one rank of every stage; 0 where a row has no such stage."""

    dense: Ints
    """[n, P] parameters reduced over the data-parallel and context-parallel ranks; with EP 1 the
    routed experts too, as Megatron 0.16 marks them."""
    expert: Ints
    """[n, P] routed-expert parameters reduced over the expert-data-parallel ranks."""
    routed: Ints
    """[n, P] routed-expert parameters, whichever group reduces them."""


def stage_parameters(
    model: Model, table: LayoutTable, splits: StageSplits | None = None
) -> StageParameters:
    """Parameters per rank of each stage; equal to what megatron-core 0.16 builds."""
    splits = splits or stage_splits(model, table)
    moe = splits.moe_layers(model).sum(axis=2)[splits.split]
    plain = splits.dense_layers(model).sum(axis=2)[splits.split]
    indexers = indexer_layers(model, splits).sum(axis=2)[splits.split]
    tp = np.maximum(table.tp, 1)[:, None]
    ep, etp = np.maximum(table.ep, 1)[:, None], np.maximum(table.etp, 1)[:, None]
    dense = plain * weights.dense_layer(model, tp) + moe * weights.moe_layer(model, tp)
    dense = dense + indexers * weights.indexer_layer(model) + _ends(model, table, splits)
    routed = moe * weights.routed_experts(model, ep, etp)
    apart = ep > 1
    return StageParameters(
        dense=dense + np.where(apart, 0, routed), expert=np.where(apart, routed, 0), routed=routed
    )


def indexer_layers(model: Model, splits: StageSplits) -> Ints:
    """[u, P, V] layers of each chunk that compute their own sparse-attention index."""
    computes = np.zeros(model.layers + 1, dtype=np.int64)
    if model.indexer is not None:
        for layer in range(1, model.layers + 1):
            computes[layer] = model.indexer.computes(layer)
    before = np.cumsum(computes)
    start = np.clip(splits.start, 0, model.layers)
    end = np.clip(splits.start + splits.layers, 0, model.layers)
    counts: Ints = before[end] - before[start]
    return counts


def first_stage(splits: StageSplits) -> Bools:
    """[u, P] the stage that holds the embedding."""
    stages: Bools = splits.exists & (np.arange(splits.exists.shape[1]) == 0)[None, :]
    return stages


def last_stage(splits: StageSplits) -> Bools:
    """[u, P] the stage that holds the final norm and the head."""
    last = np.arange(splits.exists.shape[1])[None, :] == splits.pp[:, None] - 1
    stages: Bools = splits.exists & last
    return stages


def _ends(model: Model, table: LayoutTable, splits: StageSplits) -> Ints:
    """Embedding, final norm and head; a tied head has a copy of its own with PP over 1."""
    tp = np.maximum(table.tp, 1)[:, None]
    vocabulary = weights.vocabulary_shard(model, tp)
    first = first_stage(splits)[splits.split]
    last = last_stage(splits)[splits.split]
    own_head = ~(first & model.tied_embeddings)
    tail = weights.norm(model) + weights.head_bias(model, tp) + own_head * vocabulary
    ends: Ints = first * vocabulary + last * tail
    return ends


def rank_parameters(model: Model, layout: Layout, world: int, rank: int) -> tuple[int, int] | None:
    """(dense, expert) parameters of one global rank; ranks follow order tp-cp-ep-dp-pp.

    None where no rank has a stage: PP does not divide the world, or there are more chunks than
    layers.
    """
    chunks = layout.pp * layout.vpp
    if min(layout.pp, layout.vpp) < 1 or world % layout.pp or chunks > max(model.layers, layout.pp):
        return None
    counts = stage_parameters(model, LayoutTable.of([layout]))
    stage = rank * layout.pp // world
    return int(counts.dense[0, stage]), int(counts.expert[0, stage])


def total_parameters(model: Model) -> int:
    """All parameters of the model without padding, buffers and MTP layers."""
    one = np.ones(1, dtype=np.int64)
    moe = model.moe_count
    indexers = sum(map(model.indexer.computes, range(1, model.layers + 1))) if model.indexer else 0
    layers = (model.layers - moe) * weights.dense_layer(model, one)
    layers = layers + moe * (
        weights.moe_layer(model, one) + weights.routed_experts(model, one, one)
    )
    ends = (
        weights.norm(model) + (1 if model.tied_embeddings else 2) * model.vocabulary * model.hidden
    )
    ends += model.head_bias * model.vocabulary
    return int(layers[0]) + indexers * weights.indexer_layer(model) + ends


def active_parameters(model: Model) -> int:
    """Weights of every GEMM that a token passes, head included; embedding, biases, norms not.

    Source: the convention of the published recipe pages, which this reproduces exactly.
    """
    one = np.ones(1, dtype=np.int64)
    moe = model.moe_count
    indexers = sum(map(model.indexer.computes, range(1, model.layers + 1))) if model.indexer else 0
    total = model.layers * int(weights.attention_matrices(model, one)[0])
    total += indexers * weights.indexer_matrices(model)
    total += (model.layers - moe) * weights.mlp_matrices(model, model.ffn)
    if model.experts:
        ffn = model.experts.top_k * model.experts.ffn + model.experts.shared_ffn
        gates = model.experts.count + model.experts.shared_gate
        total += moe * (model.hidden * gates + weights.mlp_matrices(model, ffn))
    return total + model.vocabulary * model.hidden
