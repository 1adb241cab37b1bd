"""Parameters of one layer on one rank, part by part.

Equal to what megatron-core 0.16 builds: every sharded weight is split evenly by TP (the fused QKV
weight too, even where TP exceeds the query groups), MLA down projections, the indexer, the router
and all norms stand whole on every tensor rank, and buffers such as the router's expert bias are
not counted.
"""

from __future__ import annotations

from attune.catalog import Model
from attune.layout.table import Ints


def attention_matrices(model: Model, tp: Ints) -> Ints:
    """Elements of the attention projections (GEMM weights) on one tensor rank, indexer apart."""
    hidden, heads = model.hidden, model.heads
    latent = model.latent
    if latent is None:
        width = (heads + 2 * model.query_groups) * model.head_dim
        return hidden * width // tp + heads * model.head_dim * hidden // tp
    query = heads * (latent.nope_dim + latent.rope_dim)
    down = (latent.q_rank or 0) + latent.kv_rank + latent.rope_dim
    up = query * (latent.q_rank or hidden) // tp
    up = up + heads * (latent.nope_dim + latent.value_dim) * latent.kv_rank // tp
    return hidden * down + up + heads * latent.value_dim * hidden // tp


def attention_vectors(model: Model, tp: Ints) -> Ints:
    """Elements of the biases, sinks and inner norms of attention on one tensor rank."""
    count = 0 * tp
    if model.qk_norm and model.latent:
        count = count + (model.latent.q_rank or 0) + model.latent.kv_rank
    elif model.qk_norm:
        heads = model.heads + model.query_groups if model.qk_norm_whole else 2
        count = count + heads * model.head_dim
    if model.qkv_bias:
        count = count + (model.heads + 2 * model.query_groups) * model.head_dim // tp
    if model.output_bias:
        count = count + model.hidden
    if model.sinks:
        count = count + model.heads // tp
    return count


def indexer_matrices(model: Model) -> int:
    """GEMM weights of one sparse-attention indexer, whole on every tensor rank."""
    indexer, latent = model.indexer, model.latent
    if indexer is None:
        return 0
    query_input = (latent.q_rank if latent else None) or model.hidden
    width = indexer.heads * indexer.dim
    return query_input * width + model.hidden * (indexer.dim + indexer.heads)


def indexer_vectors(model: Model) -> int:
    """Weight and bias of the indexer's key norm."""
    return 2 * model.indexer.dim if model.indexer else 0


def mlp_matrices(model: Model, ffn: int) -> int:
    """GEMM weights of a whole MLP of hidden size `ffn`: up, down, and gate where it has one."""
    return (3 if model.gated else 2) * model.hidden * ffn


def mlp_vectors(model: Model, ffn: int, shards: Ints) -> Ints:
    """Biases of an MLP on one of its `shards` tensor ranks."""
    if not model.mlp_bias:
        return 0 * shards
    return (2 if model.gated else 1) * ffn // shards + model.hidden


def dense_layer(model: Model, tp: Ints) -> Ints:
    """Parameters of a layer with a dense MLP on one tensor rank, indexer apart."""
    mlp = mlp_matrices(model, model.ffn) // tp + mlp_vectors(model, model.ffn, tp)
    return _attention_layer(model, tp) + mlp


def moe_layer(model: Model, tp: Ints) -> Ints:
    """Parameters of a MoE layer on one tensor rank, routed experts and indexer apart."""
    experts = model.experts
    if experts is None:
        return 0 * tp
    router = experts.count * (model.hidden + model.mlp_bias)
    shared = mlp_matrices(model, experts.shared_ffn) // tp
    gate = model.hidden if experts.shared_gate else 0
    return _attention_layer(model, tp) + router + shared + gate


def routed_experts(model: Model, ep: Ints, etp: Ints) -> Ints:
    """Parameters of the routed experts of one layer on one rank of an EP x ETP group."""
    experts = model.experts
    if experts is None:
        return 0 * ep
    one = mlp_matrices(model, experts.ffn) // etp + mlp_vectors(model, experts.ffn, etp)
    return experts.count // ep * one


def indexer_layer(model: Model) -> int:
    """Parameters that a layer which computes its own sparse-attention index has beside."""
    return indexer_matrices(model) + indexer_vectors(model)


def vocabulary_shard(model: Model, tp: Ints) -> Ints:
    """Parameters of the embedding, or of the head, on one tensor rank, padding included."""
    return _vocabulary_rows(model, tp) * model.hidden


def head_bias(model: Model, tp: Ints) -> Ints:
    """Elements of the bias of the head on one tensor rank, padding included."""
    return model.head_bias * _vocabulary_rows(model, tp)


def _vocabulary_rows(model: Model, tp: Ints) -> Ints:
    return -(-model.vocabulary // (128 * tp)) * 128


def _attention_layer(model: Model, tp: Ints) -> Ints:
    norms = model.norms * norm(model)
    return attention_matrices(model, tp) + attention_vectors(model, tp) + norms


def norm(model: Model) -> int:
    """Parameters of one norm over the hidden size."""
    return model.norm_vectors * model.hidden
