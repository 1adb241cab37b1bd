"""Rules of hiding the expert all-to-all behind another microbatch (1F1B overlap)."""

from __future__ import annotations

from dataclasses import replace

from attune.layout.layout import Layout
from attune.layout.rules.rule import Rule, always
from attune.layout.rules.setting import Setting
from attune.layout.table import ABSENT, DISPATCHERS, GRANULARITIES, Bools, LayoutTable

_ALLGATHER = DISPATCHERS.index("allgather")
_FULL = GRANULARITIES.index("full")


def _off(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, overlap_experts=False)


def _virtual(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = ~table.overlap_experts | (table.pp <= 1) | (table.vpp > 1)
    return good


def _virtual_message(setting: Setting, layout: Layout) -> str:
    return (
        f"expert overlap with PP {layout.pp} needs virtual stages, but VPP is {layout.vpp}; "
        "set VPP, or turn the overlap off"
    )


def _parallel(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = ~table.overlap_experts | (table.ep > 1)
    return good


def _parallel_message(setting: Setting, layout: Layout) -> str:
    return f"expert overlap needs EP over 1, but got {layout.ep}; turn the overlap off"


def _dispatcher(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = ~table.overlap_experts | (table.dispatcher != _ALLGATHER)
    return good


def _dispatcher_message(setting: Setting, layout: Layout) -> str:
    return (
        "expert overlap works with the dispatchers alltoall and flex, but got "
        f"{layout.dispatcher}; use alltoall"
    )


def _dispatcher_cure(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, dispatcher="alltoall")


def _recompute(setting: Setting, table: LayoutTable) -> Bools:
    plain = (table.recompute_method == 0) & (table.recompute_layers == ABSENT)
    good: Bools = ~table.overlap_experts | (plain & (table.recompute != _FULL))
    return good


def _recompute_message(setting: Setting, layout: Layout) -> str:
    return (
        "expert overlap excludes full recompute, its method and its number of layers, but got "
        f"{layout.recompute}, {layout.recompute_method}, {layout.recompute_layers}; "
        "use selective recompute or none"
    )


def _recompute_cure(setting: Setting, layout: Layout) -> Layout:
    granularity = "none" if layout.recompute == "full" else layout.recompute
    return replace(layout, recompute=granularity, recompute_method=None, recompute_layers=None)


def _precision(setting: Setting, table: LayoutTable) -> Bools:
    half = setting.workload.precision != "fp32"
    good: Bools = ~table.overlap_experts | half
    return good


def _precision_message(setting: Setting, layout: Layout) -> str:
    return "expert overlap needs bf16 or fp16, but the workload trains in fp32; turn it off"


def _shared(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = ~(table.overlap_experts & table.overlap_shared_experts)
    return good


def _shared_message(setting: Setting, layout: Layout) -> str:
    return "expert overlap and shared-expert overlap exclude each other; turn one of them off"


def _shared_cure(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, overlap_shared_experts=False)


def _experts_recomputed(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = ~(table.overlap_experts & table.recomputes("moe"))
    return good


def _experts_recomputed_message(setting: Setting, layout: Layout) -> str:
    return "expert overlap excludes recompute of `moe`; leave that module out"


def _experts_recomputed_cure(setting: Setting, layout: Layout) -> Layout:
    modules = tuple(x for x in layout.recompute_modules if x != "moe")
    return replace(layout, recompute="selective" if modules else "none", recompute_modules=modules)


def _even(setting: Setting, table: LayoutTable) -> Bools:
    if setting.model.moe_count % 2 == 0:
        return always(table)
    good: Bools = ~table.overlap_experts
    return good


def _even_message(setting: Setting, layout: Layout) -> str:
    return (
        "expert overlap is reported to hang with an odd number of MoE layers, and "
        f"{setting.model.name} has {setting.model.moe_count}; "
        "turn it off"
    )


def _delayed(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = ~table.delayed_weight_gradients | table.overlap_experts
    return good


def _delayed_message(setting: Setting, layout: Layout) -> str:
    return "delayed weight gradients need expert overlap; turn them off, or the overlap on"


def _delayed_cure(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, delayed_weight_gradients=False)


_SINCE = (0, 14)
_CONFIG = "transformer_config.py"
_DISPATCHER = frozenset({"dispatcher"})

RULES = (
    Rule(
        id="overlap.experts_need_virtual_stages",
        holds=_virtual,
        message=_virtual_message,
        cure=_off,
        source=_CONFIG,
        since=_SINCE,
    ),
    Rule(
        id="overlap.experts_need_expert_parallel",
        holds=_parallel,
        message=_parallel_message,
        cure=_off,
        source=_CONFIG,
        since=_SINCE,
    ),
    Rule(
        id="overlap.experts_dispatcher",
        holds=_dispatcher,
        message=_dispatcher_message,
        cure=_dispatcher_cure,
        source=_CONFIG,
        since=_SINCE,
        needs=_DISPATCHER,
    ),
    Rule(
        id="overlap.experts_recompute",
        holds=_recompute,
        message=_recompute_message,
        cure=_recompute_cure,
        source=_CONFIG,
        since=_SINCE,
    ),
    Rule(
        id="overlap.experts_precision",
        holds=_precision,
        message=_precision_message,
        cure=_off,
        source=_CONFIG,
        since=_SINCE,
    ),
    Rule(
        id="overlap.experts_no_shared_overlap",
        holds=_shared,
        message=_shared_message,
        cure=_shared_cure,
        source=_CONFIG,
        since=_SINCE,
    ),
    Rule(
        id="overlap.experts_not_recomputed",
        holds=_experts_recomputed,
        message=_experts_recomputed_message,
        cure=_experts_recomputed_cure,
        source=_CONFIG,
        since=(0, 17),
    ),
    Rule(
        id="overlap.experts_even_layers",
        holds=_even,
        message=_even_message,
        cure=_off,
        source="Megatron-LM issues 1810 and 1852",
        verdict="risky",
        since=_SINCE,
    ),
    Rule(
        id="overlap.delayed_gradients_need_experts",
        holds=_delayed,
        message=_delayed_message,
        cure=_delayed_cure,
        source=_CONFIG,
        since=_SINCE,
    ),
)
