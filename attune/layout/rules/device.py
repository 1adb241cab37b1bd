"""Rules of training on CPU processes with gloo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from attune.layout.layout import Layout
from attune.layout.rules.rule import Rule, always
from attune.layout.rules.setting import Setting
from attune.layout.table import DISPATCHERS, Bools, LayoutTable

_FLEX = DISPATCHERS.index("flex")
_OVERLAPS = (
    "overlap_shared_experts",
    "overlap_experts",
    "overlap_gradients",
    "overlap_parameters",
    "overlap_tensor",
    "cuda_graphs",
    "delayed_weight_gradients",
)


def _expert_tensor(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = table.etp <= 1
    return good


def _context(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = table.cp <= 1
    return good


def _dispatcher(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = table.dispatcher != _FLEX
    return good


def _overlaps(setting: Setting, table: LayoutTable) -> Bools:
    good = always(table)
    for name in _OVERLAPS:
        good &= ~getattr(table, name)
    return good


def _optimizer(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = (table.optimizer_offload <= 0) & ~table.precision_aware_optimizer
    return good


def _activation(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = ~table.recomputes("moe_act")
    return good


def _activation_cure(setting: Setting, layout: Layout) -> Layout:
    modules = tuple(x for x in layout.recompute_modules if x != "moe_act")
    return replace(layout, recompute="selective" if modules else "none", recompute_modules=modules)


def _model(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = always(table) & (not _untrained(setting))
    return good


def _untrained(setting: Setting) -> list[str]:
    model = setting.model
    parts = {
        "multi-latent attention": model.latent,
        "a sparse-attention indexer": model.indexer,
        "attention sinks": model.sinks,
    }
    return [name for name, part in parts.items() if part]


def _model_message(setting: Setting, layout: Layout) -> str:
    return (
        f"{setting.model.name} has {', '.join(_untrained(setting))}, which attune's trainer does "
        "not train on CPU yet; use another model or a GPU"
    )


def _set(**values: Any) -> Callable[[Setting, Layout], Layout]:
    return lambda setting, layout: replace(layout, **values)


def _says(text: str) -> Callable[[Setting, Layout], str]:
    return lambda setting, layout: text.format(layout=layout)


def _rule(
    name: str,
    holds: Callable[[Setting, LayoutTable], Bools],
    message: Callable[[Setting, Layout], str],
    cure: Callable[[Setting, Layout], Layout | None],
    source: str,
) -> Rule:
    return Rule(
        id=f"cpu.{name}",
        holds=holds,
        message=message,
        cure=cure,
        source=source,
        architecture="cpu",
    )


RULES = (
    _rule(
        "expert_tensor_parallel",
        _expert_tensor,
        _says("on CPU ETP must be 1, but got {layout.etp}: gloo gathers no uneven sizes; set it"),
        _set(etp=1),
        "torch ProcessGroupGloo allgather: invalid tensor size",
    ),
    _rule(
        "context_parallel",
        _context,
        _says("on CPU CP must be 1, but got {layout.cp}: it needs Transformer Engine; set it"),
        _set(cp=1),
        "dot_product_attention.py",
    ),
    _rule(
        "dispatcher",
        _dispatcher,
        _says("on CPU there is no flex dispatcher (DeepEP needs CUDA); use alltoall"),
        _set(dispatcher="alltoall"),
        "moe/token_dispatcher.py (DeepEP)",
    ),
    _rule(
        "overlaps",
        _overlaps,
        _says("overlaps, CUDA graphs and delayed gradients need CUDA streams; turn them off"),
        _set(**dict.fromkeys(_OVERLAPS, False)),
        "CUDA streams",
    ),
    _rule(
        "optimizer",
        _optimizer,
        _says("on CPU there is no optimizer offload or precision-aware optimizer; turn them off"),
        _set(optimizer_offload=0.0, precision_aware_optimizer=False, overlap_offload=False),
        "cpu_offloading/hybrid_optimizer.py (pinned memory, CUDA streams)",
    ),
    _rule(
        "activation_recompute",
        _activation,
        _says("on CPU `moe_act` is not recomputed (no grouped GEMM); leave the module out"),
        _activation_cure,
        "transformer_config.py: moe_act needs moe_grouped_gemm",
    ),
    _rule(
        "model",
        _model,
        _model_message,
        lambda setting, layout: None,
        "attune's own trainer",
    ),
)
