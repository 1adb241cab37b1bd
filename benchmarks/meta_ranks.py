"""Builds one rank's part of a model with megatron-core on the meta device: shapes without weights.

No GPU and one process: torch's fake process group plays all ranks. Stand-ins, none of which
changes a shape: local layers instead of Transformer Engine's (the norm that those fuse into a
linear is a module of its own), one MLP per expert instead of a grouped GEMM, and for the MLA down
projections and the sparse-attention indexer a linear that is whole on every tensor rank, as
`TELinear(parallel_mode="duplicated")`. The core attention is told that CP is 1 and that sequence
parallelism is off, neither of which has parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from megatron.core import parallel_state, tensor_parallel
from megatron.core.models.backends import LocalSpecProvider
from megatron.core.models.gpt.experimental_attention_variant_module_specs import (
    get_dsa_module_spec_for_backend,
)
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.transformer import multi_latent_attention
from megatron.core.transformer.identity_op import IdentityOp
from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig
from torch.testing._internal.distributed.fake_pg import FakeStore

from attune.catalog import Model
from attune.layout import Layout


@dataclass(frozen=True, kw_only=True)
class Built:
    """What megatron-core built for one rank."""

    dense: int
    """Elements of the parameters whose `allreduce` is not False."""
    expert: int
    """Elements of the others."""
    layers: tuple[int, ...]
    """Layers of each chunk."""


class Duplicated(torch.nn.Module):
    """A linear without bias, whole on every tensor rank."""

    def __init__(self, inputs: int, outputs: int, **_: Any) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(outputs, inputs))


class _Backend(LocalSpecProvider):
    def linear(self) -> type:
        return Duplicated


def pretend_cuda() -> None:
    """Makes megatron-core build on the meta device, in this process from now on."""
    cuda, state = torch.cuda, torch.zeros(1, device="cpu")
    random = tensor_parallel.random
    for place, name, answer in (
        (cuda, "current_device", torch.device("meta")),
        (cuda, "Stream", None),
        (cuda, "_lazy_init", None),
        (cuda, "get_device_capability", (9, 0)),
        (cuda, "is_available", False),
        (cuda, "get_rng_state", state),
        (cuda, "manual_seed", None),
        (random, "_get_cuda_rng_state", state),
        (random, "_set_cuda_rng_state", None),
    ):
        setattr(place, name, lambda *_, answer=answer, **__: answer)
    torch.Tensor.cuda = lambda self, *_, **__: self
    multi_latent_attention.TELinear = Duplicated


def build_rank(model: Model, layout: Layout, world: int, rank: int) -> Built:
    """All chunks of global rank `rank` of `world`.

    Raises:
        AssertionError, ValueError, RuntimeError: megatron-core refuses the layout.
    """
    torch.distributed.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
    try:
        _initialize(model, layout)
        chunks = _chunks(model, layout)
    finally:
        parallel_state.destroy_model_parallel()
        torch.distributed.destroy_process_group()
    parameters = [parameter for chunk in chunks for parameter in chunk.parameters()]
    dense = sum(x.numel() for x in parameters if getattr(x, "allreduce", True))
    return Built(
        dense=dense,
        expert=sum(x.numel() for x in parameters) - dense,
        layers=tuple(len(chunk.decoder.layers) for chunk in chunks),
    )


def _initialize(model: Model, layout: Layout) -> None:
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=layout.tp,
        pipeline_model_parallel_size=layout.pp,
        virtual_pipeline_model_parallel_size=layout.vpp if layout.vpp > 1 else None,
        context_parallel_size=layout.cp,
        expert_model_parallel_size=layout.ep,
        expert_tensor_parallel_size=layout.etp if model.experts else None,
        create_gloo_process_groups=False,
    )
    tensor_parallel.model_parallel_cuda_manual_seed(1)


def _chunks(model: Model, layout: Layout) -> list[GPTModel]:
    config = _config(model, layout)
    stages: list[int | None] = [*range(layout.vpp)] if layout.vpp > 1 else [None]
    with torch.device("meta"):
        return [_chunk(model, layout, config, stage) for stage in stages]


def _chunk(model: Model, layout: Layout, config: TransformerConfig, stage: int | None) -> GPTModel:
    virtual = {"ignore_virtual": stage is None, "vp_stage": stage}
    return GPTModel(
        config,
        _block(model, config, stage),
        vocab_size=-(-model.vocabulary // (128 * layout.tp)) * 128 * layout.tp,
        max_sequence_length=8192,
        pre_process=parallel_state.is_pipeline_first_stage(**virtual),
        post_process=parallel_state.is_pipeline_last_stage(**virtual),
        position_embedding_type="rope",
        share_embeddings_and_output_weights=model.tied_embeddings,
        vp_stage=stage,
    )


def _block(model: Model, config: TransformerConfig, stage: int | None) -> Any:
    block = get_gpt_decoder_block_spec(config, use_transformer_engine=False, vp_stage=stage)
    for layer in block.layer_specs if model.latent else ():
        parts = layer.submodules.self_attention.submodules
        parts.linear_q_down_proj = parts.linear_kv_down_proj = Duplicated
        # The local core attention does not know the head sizes of MLA; it has no parameters.
        parts.core_attention = IdentityOp
        if model.indexer:
            sparse = get_dsa_module_spec_for_backend(config, _Backend())
            parts.core_attention = sparse.submodules.core_attention
    return block


def _config(model: Model, layout: Layout) -> TransformerConfig:
    fields: dict[str, Any] = {
        "num_layers": model.layers,
        "hidden_size": model.hidden,
        "ffn_hidden_size": model.ffn,
        "num_attention_heads": model.heads,
        "num_query_groups": None if model.latent else model.query_groups,
        "kv_channels": model.head_dim,
        "qk_layernorm": model.qk_norm,
        "add_qkv_bias": model.qkv_bias,
        "add_bias_linear": model.mlp_bias,
        "gated_linear_unit": model.gated,
        "activation_func": torch.nn.functional.silu,
        "softmax_type": "learnable" if model.sinks else "vanilla",
        "normalization": "RMSNorm",
        "tensor_model_parallel_size": layout.tp,
        "pipeline_model_parallel_size": layout.pp,
        "virtual_pipeline_model_parallel_size": layout.vpp if layout.vpp > 1 else None,
        "pipeline_model_parallel_layout": layout.pipeline_layout,
        "num_layers_in_first_pipeline_stage": layout.first,
        "num_layers_in_last_pipeline_stage": layout.last,
        "pipeline_dtype": torch.bfloat16,
        "params_dtype": torch.bfloat16,
        "bf16": True,
        "perform_initialization": False,
        "gradient_accumulation_fusion": False,
        **(_experts(model, layout) if model.experts else {}),
    }
    if model.latent is None:
        return TransformerConfig(**fields)
    return MLATransformerConfig(**fields, **_latent(model))


def _experts(model: Model, layout: Layout) -> dict[str, Any]:
    experts = model.experts
    assert experts is not None
    return {
        "expert_model_parallel_size": layout.ep,
        "expert_tensor_parallel_size": layout.etp,
        "num_moe_experts": experts.count,
        "moe_layer_freq": [int(moe) for moe in model.moe_pattern],
        "moe_ffn_hidden_size": experts.ffn,
        "moe_shared_expert_intermediate_size": experts.shared_ffn or None,
        "moe_router_topk": experts.top_k,
        "moe_router_score_function": experts.score,
        "moe_router_enable_expert_bias": experts.expert_bias,
        "moe_token_dispatcher_type": "alltoall",
    }


def _latent(model: Model) -> dict[str, Any]:
    latent, indexer = model.latent, model.indexer
    assert latent is not None
    fields: dict[str, Any] = {
        "q_lora_rank": latent.q_rank,
        "kv_lora_rank": latent.kv_rank,
        "qk_head_dim": latent.nope_dim,
        "qk_pos_emb_head_dim": latent.rope_dim,
        "v_head_dim": latent.value_dim,
        "rope_type": "rope",
        "apply_rope_fusion": False,
    }
    if indexer:
        fields |= {
            "experimental_attention_variant": "dsa",
            "dsa_indexer_n_heads": indexer.heads,
            "dsa_indexer_head_dim": indexer.dim,
            "dsa_indexer_topk": indexer.top_k,
        }
    return fields
