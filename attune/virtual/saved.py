"""Bytes that the parts of a layer save for the backward pass."""

from __future__ import annotations

import numpy as np

from attune.layout.table import Floats
from attune.virtual.layer import covered
from attune.virtual.parts import head_widths
from attune.virtual.setting import Setting


def attention_saved(setting: Setting) -> dict[str, Floats]:
    """Saved bytes of attention by part, [n] (memory_model_notes 1.2)."""
    model, sizes = setting.model, setting.sizes
    each = setting.value_bytes
    tokens, width = sizes.tokens, each * sizes.own_tokens * model.hidden
    query, value, keys = head_widths(model)
    heads, latent = model.heads / sizes.tp, model.latent
    saved = {"boundary": 2 * width, "layernorm": model.norms * width}
    saved["core_attn"] = 4.0 * tokens * heads + _scores(setting)
    out = each * tokens * heads * value
    if latent is None:
        kept = np.maximum(keys / sizes.tp, 1)
        saved["projections"] = out + each * tokens * (heads * query + kept * (query + value))
        return saved
    ranks = (latent.q_rank or 0) + latent.kv_rank
    saved["projections"] = out * 2 + each * sizes.own_tokens * (ranks + latent.rope_dim)
    inner = each * sizes.own_tokens * ranks
    saved["mla_up_proj"] = inner + 2 * each * tokens * heads * query
    return saved


def _scores(setting: Setting) -> Floats:
    """Softmax of an unfused core, where no fused one exists (CPU)."""
    if not setting.on_cpu:
        return np.zeros_like(setting.sizes.tokens)
    rows = setting.sizes.tokens * setting.workload.row_tokens
    scores: Floats = 3.0 * setting.value_bytes * rows * setting.model.heads
    return scores / setting.sizes.tp


def dense_saved(setting: Setting) -> dict[str, Floats]:
    """Saved bytes of a layer with a dense MLP by part, [n]."""
    saved = attention_saved(setting)
    saved["mlp"] = _mlp_saved(setting, setting.model.ffn)
    return saved


def _mlp_saved(setting: Setting, ffn: int) -> Floats:
    tokens = setting.sizes.tokens / setting.sizes.tp
    saved: Floats = setting.value_bytes * tokens * (setting.wide + 1) * ffn
    return saved


def expert_saved(setting: Setting) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Saved bytes of a MoE layer by part: what is even over ranks, what follows the tokens."""
    experts, sizes = setting.model.experts, setting.sizes
    assert experts is not None
    each = setting.value_bytes
    even = attention_saved(setting)
    even["router"] = 24.0 * sizes.own_tokens * experts.count
    if experts.shared_ffn:
        even["shared_experts"] = _mlp_saved(setting, experts.shared_ffn)
    routed, ffn = sizes.routed_tokens, experts.ffn / sizes.etp
    uneven = {
        "experts": each * routed * (setting.model.hidden + setting.wide * ffn),
        "moe_act": each * routed * ffn + 4 * routed,
    }
    return even, uneven


def kept(setting: Setting, saved: dict[str, Floats]) -> Floats:
    """Bytes [n] that selective recompute leaves of `saved`."""
    total = np.zeros(len(setting.table))
    for part, amount in saved.items():
        repeated = covered(setting.table, part) if part != "boundary" else False
        total = total + np.where(repeated, 0.0, amount)
    return total


def whole(setting: Setting, saved: dict[str, Floats]) -> Floats:
    """Bytes [n] of everything in `saved`."""
    return sum(saved.values(), np.zeros(len(setting.table)))
