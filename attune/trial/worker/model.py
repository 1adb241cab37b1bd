"""Builds this rank's part of the model with megatron-core."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.transformer import multi_latent_attention
from megatron.core.transformer.moe import moe_utils
from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig

from attune.catalog import Experts, Model
from attune.catalog.model import Latent, RopeScaling
from attune.layout.pipeline_layout import expand
from attune.trial.worker import faults
from attune.trial.worker.config import WorkerConfig
from attune.trial.worker.layers import (
    ReplicatedLinear,
    RootMeanSquareNorm,
    ScaledDotProductAttention,
)

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
    make = MLATransformerConfig if config.model.latent else TransformerConfig
    settings = _shape(config) | _parallelism(config) | _numerics(config) | _recompute(config)
    return make(**faults.spoil_transformer(config.options.fault, settings))


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
        **(_latent(model, model.latent) if model.latent else {}),
        **(_experts(config, model.experts) if model.experts else {}),
    }


def _latent(model: Model, latent: Latent) -> dict[str, Any]:
    """Multi-head latent attention, whose positions megatron-core builds inside each layer."""
    return {
        "q_lora_rank": latent.q_rank,
        "kv_lora_rank": latent.kv_rank,
        "qk_head_dim": latent.nope_dim,
        "qk_pos_emb_head_dim": latent.rope_dim,
        "v_head_dim": latent.value_dim,
        "rope_type": "rope",
        # The config divides by it even where positions are not stretched.
        "rotary_scaling_factor": 1.0,
        "rotary_base": model.rope_base,
        **(_yarn(model.rope_scaling) if model.rope_scaling else {}),
    }


def _yarn(scaling: RopeScaling) -> dict[str, Any]:
    """Stretched positions; what is not given keeps megatron-core's value."""
    given = {
        "original_max_position_embeddings": scaling.original_positions,
        "mscale": scaling.mscale,
        "mscale_all_dim": scaling.mscale_all_dim,
        "beta_fast": scaling.beta_fast,
        "beta_slow": scaling.beta_slow,
    }
    return {
        "rope_type": "yarn",
        "rotary_scaling_factor": scaling.factor,
        **{name: value for name, value in given.items() if value is not None},
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
        "context_parallel_size": layout.cp,
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
        # With latent attention it takes stretched positions (MLATransformerConfig).
        "apply_rope_fusion": has_transformer_engine() and not config.model.latent,
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
        transformer_layer_spec=_block(config, transformer, chunk),
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


def _block(config: WorkerConfig, transformer: TransformerConfig, chunk: int | None) -> Any:
    engine = has_transformer_engine()
    block = get_gpt_decoder_block_spec(
        transformer, use_transformer_engine=engine, normalization="RMSNorm", vp_stage=chunk
    )
    if not engine:
        _without_transformer_engine(block, transformer)
    for layer in block.layer_specs:
        faults.spoil_layer(config.options.fault, layer)
    return block


def _without_transformer_engine(block: Any, transformer: TransformerConfig) -> None:
    """Puts the worker's own norms, and where it is needed its attention, into a local layer spec.

    Megatron's attention knows neither context parallelism nor latent heads, and is slow on CUDA.
    """
    # Without Transformer Engine megatron-core 0.16 uses this name but does not define it.
    vars(moe_utils).setdefault("te_general_gemm", None)
    # Its latent attention asks for this class by name, to have a projection whole on every rank.
    multi_latent_attention.TELinear = ReplicatedLinear
    latent = transformer.multi_latent_attention
    own_attention = torch.cuda.is_available() or transformer.context_parallel_size > 1 or latent
    block.layer_norm = RootMeanSquareNorm
    for layer in block.layer_specs:
        parts, attention = layer.submodules, layer.submodules.self_attention.submodules
        parts.input_layernorm = parts.pre_mlp_layernorm = RootMeanSquareNorm
        if transformer.qk_layernorm:
            attention.q_layernorm = RootMeanSquareNorm
            setattr(attention, "kv_layernorm" if latent else "k_layernorm", RootMeanSquareNorm)
        if latent:
            attention.linear_q_down_proj = attention.linear_kv_down_proj = ReplicatedLinear
        if own_attention:
            attention.core_attention = ScaledDotProductAttention
