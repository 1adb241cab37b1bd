"""The flags with which Megatron-LM builds a model."""

from __future__ import annotations

from typing import Any

from attune.catalog.model import Experts, Latent, Model, RopeScaling

Flags = dict[str, Any]
"""Flag and value; True for a flag that takes none."""


def megatron_flags(model: Model) -> Flags:
    """Flags of Megatron-LM 0.16 that state the architecture, and nothing of a run.

    Multi-token-prediction layers are left out, as whether they train is up to the run. See
    `beyond_flags` for what no flag can say.

    Source: megatron/training/arguments.py.
    """
    return {
        **_sizes(model),
        **_block(model),
        **_attention(model),
        **_positions(model),
        **(_experts(model, model.experts) if model.experts else {}),
    }


def beyond_flags(model: Model) -> tuple[str, ...]:
    """Fields of the model that Megatron's command line cannot state: they need a layer spec."""
    odd = ("parallel", "qk_norm_whole", "head_bias", "indexer", "logit_cap")
    found = [name for name in odd if getattr(model, name)]
    if model.norms not in (2, 4):
        found.append("norms")
    if (model.norm, model.norm_vectors) not in (("rms", 1), ("layer", 2)):
        found.append("norm_vectors")
    if model.gated and model.activation != "silu":
        found.append("activation")
    if model.output_bias != model.mlp_bias:
        found.append("output_bias" if model.output_bias else "mlp_bias")
    return tuple(found)


def _sizes(model: Model) -> Flags:
    return {
        "--num-layers": model.layers,
        "--hidden-size": model.hidden,
        "--ffn-hidden-size": model.ffn,
        "--vocab-size": model.vocabulary,
        "--max-position-embeddings": model.max_positions,
        **_when(not model.tied_embeddings, "--untie-embeddings-and-output-weights"),
        # Megatron's defaults are 0.1, and would keep a mask for each value.
        "--hidden-dropout": 0.0,
        "--attention-dropout": 0.0,
    }


def _block(model: Model) -> Flags:
    return {
        "--normalization": "RMSNorm" if model.norm == "rms" else "LayerNorm",
        "--norm-epsilon": model.norm_epsilon,
        **_when(model.norms == 4, "--post-self-attn-layernorm", "--post-mlp-layernorm"),
        **_when(model.gated and model.activation == "silu", "--swiglu"),
        **_when(model.activation == "relu2", "--squared-relu"),
        **_when(not model.mlp_bias and not model.output_bias, "--disable-bias-linear"),
    }


def _attention(model: Model) -> Flags:
    flags: Flags = {
        "--num-attention-heads": model.heads,
        "--kv-channels": model.head_dim,
        **_when(model.qk_norm, "--qk-layernorm"),
        **_when(model.qkv_bias, "--add-qkv-bias"),
    }
    if model.latent:
        flags |= _latent(model.latent)
    elif model.query_groups != model.heads:
        flags |= {"--group-query-attention": True, "--num-query-groups": model.query_groups}
    if model.sinks:
        flags["--softmax-type"] = "learnable"
    if model.window:
        flags["--window-size"] = f"{model.window},0"
        if model.full_attention_every:
            flags["--window-attn-skip-freq"] = model.full_attention_every
    return flags


def _latent(latent: Latent) -> Flags:
    flags: Flags = {"--multi-latent-attention": True}
    if latent.q_rank:
        flags["--q-lora-rank"] = latent.q_rank
    return flags | {
        "--kv-lora-rank": latent.kv_rank,
        "--qk-head-dim": latent.nope_dim,
        "--qk-pos-emb-head-dim": latent.rope_dim,
        "--v-head-dim": latent.value_dim,
    }


def _positions(model: Model) -> Flags:
    flags: Flags = {
        "--position-embedding-type": "rope",
        "--rotary-base": model.rope_base,
        "--rotary-percent": model.rope_share,
    }
    if model.no_rope_every:
        flags["--no-rope-freq"] = model.no_rope_every
    scaling = model.rope_scaling
    if scaling is None:
        return flags
    if scaling.kind == "llama3":
        return flags | {"--use-rope-scaling": True, "--rope-scaling-factor": scaling.factor}
    return flags | _stretched(scaling)


def _stretched(scaling: RopeScaling) -> Flags:
    """YaRN, which Megatron has for latent attention; other kinds have no flag."""
    if scaling.kind != "yarn":
        return {}
    values = {
        "--original-max-position-embeddings": scaling.original_positions,
        "--mscale": scaling.mscale,
        "--mscale-all-dim": scaling.mscale_all_dim,
        "--beta-fast": scaling.beta_fast,
        "--beta-slow": scaling.beta_slow,
    }
    flags: Flags = {"--rope-type": "yarn", "--rotary-scaling-factor": scaling.factor}
    return flags | {flag: value for flag, value in values.items() if value is not None}


def _experts(model: Model, experts: Experts) -> Flags:
    flags: Flags = {
        "--num-experts": experts.count,
        "--moe-layer-freq": str([int(moe) for moe in model.moe_pattern]).replace(" ", ""),
        "--moe-ffn-hidden-size": experts.ffn,
        "--moe-router-topk": experts.top_k,
        "--moe-router-score-function": experts.score,
        **_when(experts.pre_softmax, "--moe-router-pre-softmax"),
        **_when(experts.expert_bias, "--moe-router-enable-expert-bias"),
        **_when(experts.shared_gate, "--moe-shared-expert-gate"),
    }
    if experts.shared_ffn:
        flags["--moe-shared-expert-intermediate-size"] = experts.shared_ffn
    if experts.scaling != 1:
        flags["--moe-router-topk-scaling-factor"] = experts.scaling
    if experts.groups > 1:
        flags["--moe-router-num-groups"] = experts.groups
        flags["--moe-router-group-topk"] = experts.group_top_k
    return flags


def _when(condition: bool, *flags: str) -> Flags:
    return dict.fromkeys(flags, True) if condition else {}
