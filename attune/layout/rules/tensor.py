"""Rules of tensor and sequence parallelism."""

from __future__ import annotations

from dataclasses import replace

from attune.layout.divisors import largest_divisor
from attune.layout.layout import Layout
from attune.layout.rules.rule import Rule, always
from attune.layout.rules.setting import Setting
from attune.layout.table import Bools, LayoutTable, degree


def _heads(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = setting.model.heads % degree(table.tp) == 0
    return good


def _heads_message(setting: Setting, layout: Layout) -> str:
    return (
        f"TP ({layout.tp}) must divide the attention heads ({setting.model.heads}); "
        "lower TP to a divisor"
    )


def _heads_cure(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, tp=largest_divisor(setting.model.heads, layout.tp))


def _groups_strict(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = setting.model.query_groups % degree(table.tp) == 0
    return good


def _groups_strict_message(setting: Setting, layout: Layout) -> str:
    return (
        f"TP ({layout.tp}) must divide the query groups ({setting.model.query_groups}) before "
        "megatron-core 0.16; lower TP to a divisor, or use a newer megatron-core"
    )


def _groups_cure(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, tp=largest_divisor(setting.model.query_groups, layout.tp))


def _groups(setting: Setting, table: LayoutTable) -> Bools:
    groups, tp = setting.model.query_groups, degree(table.tp)
    good: Bools = (groups % tp == 0) | (tp % groups == 0)
    return good


def _groups_message(setting: Setting, layout: Layout) -> str:
    return (
        f"TP ({layout.tp}) must divide the query groups ({setting.model.query_groups}) or be a "
        "multiple of them; lower TP"
    )


def _qkv_width(setting: Setting) -> int:
    model = setting.model
    return (model.heads + 2 * model.query_groups) * model.head_dim


def _qkv(setting: Setting, table: LayoutTable) -> Bools:
    if setting.model.latent:
        return always(table)
    good: Bools = _qkv_width(setting) % degree(table.tp) == 0
    return good


def _qkv_message(setting: Setting, layout: Layout) -> str:
    return (
        f"TP ({layout.tp}) must divide the width of the query, key and value projection "
        f"({_qkv_width(setting)}); lower TP to a divisor"
    )


def _qkv_cure(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, tp=largest_divisor(_qkv_width(setting), layout.tp))


def _mlp(setting: Setting, table: LayoutTable) -> Bools:
    if setting.model.moe_count == setting.model.layers:
        return always(table)
    good: Bools = setting.model.ffn % degree(table.tp) == 0
    return good


def _mlp_message(setting: Setting, layout: Layout) -> str:
    return (
        f"TP ({layout.tp}) must divide the MLP hidden size ({setting.model.ffn}); "
        "lower TP to a divisor"
    )


def _mlp_cure(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, tp=largest_divisor(setting.model.ffn, layout.tp))


def _shared_ffn(setting: Setting) -> int:
    return setting.model.experts.shared_ffn if setting.model.experts else 0


def _shared(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = _shared_ffn(setting) % degree(table.tp) == 0
    return good


def _shared_message(setting: Setting, layout: Layout) -> str:
    return (
        f"TP ({layout.tp}) must divide the hidden size of the shared experts "
        f"({_shared_ffn(setting)}); lower TP to a divisor"
    )


def _shared_cure(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, tp=largest_divisor(_shared_ffn(setting), layout.tp))


def _sequence(setting: Setting, table: LayoutTable) -> Bools:
    tokens = setting.workload.row_tokens // degree(table.cp)
    on = table.sequence_parallel & (table.tp > 1)
    good: Bools = ~on | (tokens % degree(table.tp) == 0)
    return good


def _sequence_message(setting: Setting, layout: Layout) -> str:
    return (
        f"with sequence parallel, TP ({layout.tp}) must divide the tokens of a row on one "
        f"context-parallel rank ({setting.workload.row_tokens} / {layout.cp}); "
        "lower TP or CP, or change the row tokens"
    )


def _sequence_cure(setting: Setting, layout: Layout) -> Layout:
    tokens = setting.workload.row_tokens // max(layout.cp, 1)
    return replace(layout, tp=largest_divisor(tokens, layout.tp) if tokens else layout.tp)


def _experts_sequence(setting: Setting, table: LayoutTable) -> Bools:
    if setting.model.experts is None:
        return always(table)
    good: Bools = table.sequence_parallel | (table.tp <= 1)
    return good


def _experts_sequence_message(setting: Setting, layout: Layout) -> str:
    return (
        f"a mixture-of-experts model with TP {layout.tp} trains only with sequence parallel; "
        "turn it on (`sp=on`)"
    )


def _sequence_on(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, sequence_parallel=True)


def _overlap(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = ~table.overlap_tensor | (table.sequence_parallel & (table.tp > 1))
    return good


def _overlap_message(setting: Setting, layout: Layout) -> str:
    return (
        "tensor-parallel overlap needs sequence parallel with TP over 1, but got "
        f"TP {layout.tp}, sequence parallel {'on' if layout.sequence_parallel else 'off'}; "
        "turn the overlap off"
    )


def _overlap_cure(setting: Setting, layout: Layout) -> Layout:
    if layout.tp > 1:
        return replace(layout, sequence_parallel=True)
    return replace(layout, overlap_tensor=False)


RULES = (
    Rule(
        id="tp.heads_divide",
        holds=_heads,
        message=_heads_message,
        cure=_heads_cure,
        source="transformer_config.py",
    ),
    Rule(
        id="tp.query_groups_divide",
        holds=_groups_strict,
        message=_groups_strict_message,
        cure=_groups_cure,
        source="transformer_config.py of 0.15 and earlier",
        before=(0, 16),
    ),
    Rule(
        id="tp.query_groups_match",
        holds=_groups,
        message=_groups_message,
        cure=_groups_cure,
        source="transformer_config.py",
        since=(0, 16),
    ),
    Rule(
        id="tp.qkv_divides",
        holds=_qkv,
        message=_qkv_message,
        cure=_qkv_cure,
        source="tensor_parallel/layers.py divide()",
    ),
    Rule(
        id="tp.mlp_divides",
        holds=_mlp,
        message=_mlp_message,
        cure=_mlp_cure,
        source="tensor_parallel/layers.py divide()",
    ),
    Rule(
        id="tp.shared_experts_divide",
        holds=_shared,
        message=_shared_message,
        cure=_shared_cure,
        source="tensor_parallel/layers.py divide()",
    ),
    Rule(
        id="sp.row_divides",
        holds=_sequence,
        message=_sequence_message,
        cure=_sequence_cure,
        source="tensor_parallel/mappings.py, at the first forward pass",
        needs=frozenset({"row_tokens", "sequence_parallel"}),
    ),
    Rule(
        id="sp.experts_need_it",
        holds=_experts_sequence,
        message=_experts_sequence_message,
        cure=_sequence_on,
        source="moe/moe_layer.py, at the first forward pass",
        needs=frozenset({"sequence_parallel"}),
    ),
    Rule(
        id="overlap.tensor_needs_sequence_parallel",
        holds=_overlap,
        message=_overlap_message,
        cure=_overlap_cure,
        source="training/arguments.py",
    ),
)
