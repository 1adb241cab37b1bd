"""Model FLOPs of a step, as Megatron counts them: no recompute, causal half of attention."""

from __future__ import annotations

import numpy as np

from attune.catalog import Model
from attune.counts import weights
from attune.workload import Workload


def step_flops(model: Model, workload: Workload) -> float:
    """FLOPs of one optimizer step over all ranks, forward and backward.

    Source: Megatron-LM `num_floating_point_operations`: 6 per token and GEMM weight, and
    causal attention over the whole row. Router, norms, softmax and embedding are not counted,
    and a sparse-attention indexer is taken as dense attention.
    """
    per_token = 6.0 * _gemm_weights(model)
    squares = float(workload.global_batch) * float(workload.row_tokens) ** 2
    return per_token * workload.tokens_per_step + squares * attention_flops(model)


def attention_flops(model: Model) -> float:
    """Forward and backward FLOPs of the attention core of all layers per squared row token."""
    latent = model.latent
    if latent is None:
        sizes = 2 * model.head_dim
    else:
        sizes = latent.nope_dim + latent.rope_dim + latent.value_dim
    return 3.0 * model.layers * model.heads * sizes


def _gemm_weights(model: Model) -> int:
    one = np.ones(1, dtype=np.int64)
    moe = model.moe_count
    total = model.layers * int(weights.attention_matrices(model, one)[0])
    total += (model.layers - moe) * weights.mlp_matrices(model, model.ffn)
    if model.experts:
        ffn = model.experts.top_k * model.experts.ffn + model.experts.shared_ffn
        total += moe * weights.mlp_matrices(model, ffn)
    if model.latent:
        total += model.layers * ((model.latent.q_rank or 0) + model.latent.kv_rank)
    return total + model.padded_vocabulary(1) * model.hidden
