"""Builds this rank's part of the model with megatron-core."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.transformer.moe import moe_utils
from megatron.core.transformer.transformer_config import TransformerConfig

from attune.catalog import Experts
from attune.layout.pipeline_layout import expand
from attune.trial.worker.config import WorkerConfig
from attune.trial.worker.layers import RootMeanSquareNorm, ScaledDotProductAttention

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def has_transformer_engine() -> bool:
    """Whether Transformer Engine can be used: it is installed, and a CUDA device is there."""
    return torch.cuda.is_available() and find_spec("transformer_engine") is not None


def chunk_count(config: WorkerConfig) -> int:
    """Model chunks of each pipeline rank."""
    if config.layout.pipeline_layout is not None:
        return max(len(expand(config.layout.pipeline_layout)) // config.layout.pp, 1)
    return config.layout.vpp


def transformer_config(config: WorkerConfig) -> TransformerConfig:
    """Megatron's configuration of this model, workload and layout.

    Raises:
        ValueError, AssertionError: Megatron rejects the combination.
    """
    return TransformerConfig(
        **_shape(config), **_parallelism(config), **_numerics(config), **_recompute(config)
    )


def _shape(config: WorkerConfig) -> dict[str, Any]:
    model = config.model
    return {
        "num_layers": model.layers,
        "hidden_size": model.hidden,
        "ffn_hidden_size": model.ffn,
        "num_attention_heads": model.heads,
        "num_query_groups": model.query_groups,
        "kv_channels": model.head_dim,
        "qk_layernorm": model.qk_norm,
        "add_qkv_bias": model.qkv_bias,
        "add_bias_linear": model.mlp_bias,
        "gated_linear_unit": model.gated,
        "activation_func": torch.nn.functional.silu if model.gated else torch.nn.functional.gelu,
        "normalization": "RMSNorm",
        "layernorm_epsilon": model.norm_epsilon,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
        # Megatron marks tensor-parallel parameters when it initializes them; the values come
        # from attune.trial.worker.weights.
        "init_method": _leave,
        "output_layer_init_method": _leave,
        **(_experts(config, model.experts) if model.experts else {}),
    }


def _experts(config: WorkerConfig, experts: Experts) -> dict[str, Any]:
    return {
        "num_moe_experts": experts.count,
        "moe_layer_freq": [int(moe) for moe in config.model.moe_pattern],
        "moe_ffn_hidden_size": experts.ffn,
        "moe_shared_expert_intermediate_size": experts.shared_ffn or None,
        "moe_shared_expert_overlap": config.layout.overlap_shared_experts,
        "moe_router_topk": experts.top_k,
        "moe_router_score_function": experts.score,
        "moe_router_pre_softmax": experts.pre_softmax,
        "moe_router_enable_expert_bias": experts.expert_bias,
        "moe_router_topk_scaling_factor": experts.scaling if experts.scaling != 1 else None,
        "moe_router_num_groups": experts.groups if experts.groups > 1 else None,
        "moe_router_group_topk": experts.group_top_k if experts.groups > 1 else None,
        "moe_router_dtype": "fp32",
        "moe_router_load_balancing_type": "aux_loss",
        "moe_aux_loss_coeff": config.workload.optimization.auxiliary_loss,
        "moe_router_force_load_balancing": config.workload.routing == "balanced",
        "moe_token_dispatcher_type": config.layout.dispatcher,
        "moe_grouped_gemm": has_transformer_engine(),
        "moe_permute_fusion": has_transformer_engine(),
    }


def _parallelism(config: WorkerConfig) -> dict[str, Any]:
    layout, chunks, cuda = config.layout, chunk_count(config), config.device == "cuda"
    return {
        "tensor_model_parallel_size": layout.tp,
        "sequence_parallel": layout.sequence_parallel,
        "pipeline_model_parallel_size": layout.pp,
        "virtual_pipeline_model_parallel_size": chunks if chunks > 1 else None,
        "pipeline_model_parallel_layout": layout.pipeline_layout,
        "num_layers_in_first_pipeline_stage": layout.first,
        "num_layers_in_last_pipeline_stage": layout.last,
        "expert_model_parallel_size": layout.ep,
        "expert_tensor_parallel_size": layout.etp,
        # Megatron overlaps the exchange of virtual stages by default, as two stages need it.
        "overlap_p2p_comm": chunks > 1 and cuda,
        "batch_p2p_comm": not (chunks > 1 and cuda),
        "batch_p2p_sync": cuda,
        "deallocate_pipeline_outputs": True,
    }


def _numerics(config: WorkerConfig) -> dict[str, Any]:
    dtype = DTYPES[config.workload.precision]
    cuda = config.device == "cuda"
    return {
        "params_dtype": dtype,
        "pipeline_dtype": dtype,
        "bf16": dtype is torch.bfloat16,
        "attention_softmax_in_fp32": True,
        "bias_activation_fusion": cuda and config.model.gated,
        "bias_dropout_fusion": cuda,
        "masked_softmax_fusion": False,
        "apply_rope_fusion": has_transformer_engine(),
        "gradient_accumulation_fusion": False,
        "persist_layer_norm": False,
    }


def _recompute(config: WorkerConfig) -> dict[str, Any]:
    layout = config.layout
    if layout.recompute == "none":
        return {}
    if layout.recompute == "selective":
        modules = list(layout.recompute_modules) or None
        return {"recompute_granularity": "selective", "recompute_modules": modules}
    return {
        "recompute_granularity": "full",
        "recompute_method": layout.recompute_method or "uniform",
        "recompute_num_layers": layout.recompute_layers or 1,
    }


def _leave(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def build_chunks(config: WorkerConfig, transformer: TransformerConfig) -> list[GPTModel]:
    """The model chunks of this rank, one without virtual stages; weights are not set."""
    chunks = chunk_count(config)
    if chunks == 1:
        return [_build_chunk(config, transformer, None)]
    return [_build_chunk(config, transformer, chunk) for chunk in range(chunks)]


def _build_chunk(
    config: WorkerConfig, transformer: TransformerConfig, chunk: int | None
) -> GPTModel:
    virtual = {"ignore_virtual": chunk is None, "vp_stage": chunk}
    return build_part(
        config,
        transformer,
        chunk,
        first=parallel_state.is_pipeline_first_stage(**virtual),
        last=parallel_state.is_pipeline_last_stage(**virtual),
    )


def build_part(
    config: WorkerConfig,
    transformer: TransformerConfig,
    chunk: int | None,
    *,
    first: bool,
    last: bool,
) -> GPTModel:
    """One chunk of the model; with the embedding if `first`, with the head if `last`."""
    model = config.model
    return GPTModel(
        config=transformer,
        transformer_layer_spec=_block(transformer, chunk),
        vocab_size=model.padded_vocabulary(config.layout.tp),
        max_sequence_length=config.workload.row_tokens,
        pre_process=first,
        post_process=last,
        position_embedding_type="rope",
        rotary_percent=model.rope_share,
        rotary_base=model.rope_base,
        share_embeddings_and_output_weights=model.tied_embeddings,
        vp_stage=chunk,
    )


def _block(transformer: TransformerConfig, chunk: int | None) -> Any:
    engine = has_transformer_engine()
    block = get_gpt_decoder_block_spec(
        transformer, use_transformer_engine=engine, normalization="RMSNorm", vp_stage=chunk
    )
    if not engine:
        _without_transformer_engine(block, transformer)
    return block


def _without_transformer_engine(block: Any, transformer: TransformerConfig) -> None:
    """Puts the worker's own norm, and on CUDA torch's attention, into a local layer spec."""
    # Without Transformer Engine megatron-core 0.16 uses this name but does not define it.
    vars(moe_utils).setdefault("te_general_gemm", None)
    block.layer_norm = RootMeanSquareNorm
    for layer in block.layer_specs:
        parts, attention = layer.submodules, layer.submodules.self_attention.submodules
        parts.input_layernorm = parts.pre_mlp_layernorm = RootMeanSquareNorm
        if transformer.qk_layernorm:
            attention.q_layernorm = attention.k_layernorm = RootMeanSquareNorm
        if torch.cuda.is_available():
            attention.core_attention = ScaledDotProductAttention
