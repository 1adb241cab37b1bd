"""Rules of activation recompute."""

from __future__ import annotations

from dataclasses import replace

from attune.layout.layout import Layout
from attune.layout.rules.rule import Rule, always
from attune.layout.rules.setting import Setting
from attune.layout.table import (
    ABSENT,
    GRANULARITIES,
    METHODS,
    MODULES,
    UNKNOWN_MODULE,
    Bools,
    LayoutTable,
)

_SELECTIVE, _FULL = GRANULARITIES.index("selective"), GRANULARITIES.index("full")


def _full_method(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = (table.recompute != _FULL) | (table.recompute_method != METHODS.index(None))
    return good


def _full_method_message(setting: Setting, layout: Layout) -> str:
    return "full recompute needs a method, uniform or block, but none is given; use uniform"


def _full_method_cure(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, recompute_method="uniform")


def _full_layers(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = (table.recompute != _FULL) | (table.recompute_layers != ABSENT)
    return good


def _full_layers_message(setting: Setting, layout: Layout) -> str:
    return "full recompute needs a number of layers, but none is given; use 1"


def _layers_positive(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = (table.recompute != _FULL) | (table.recompute_layers >= ABSENT)
    return good


def _layers_positive_message(setting: Setting, layout: Layout) -> str:
    return (
        f"full recompute of {layout.recompute_layers} layers at a time never ends; use at least 1"
    )


def _full_layers_cure(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, recompute_layers=1)


def _selective_method(setting: Setting, table: LayoutTable) -> Bools:
    plain = table.recompute_method == METHODS.index(None)
    good: Bools = (table.recompute != _SELECTIVE) | plain
    return good


def _selective_method_message(setting: Setting, layout: Layout) -> str:
    return f"selective recompute takes no method, but got {layout.recompute_method}; leave it out"


def _selective_method_cure(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, recompute_method=None)


def _selective_layers(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = (table.recompute != _SELECTIVE) | (table.recompute_layers == ABSENT)
    return good


def _selective_layers_message(setting: Setting, layout: Layout) -> str:
    return (
        "selective recompute takes no number of layers, but got "
        f"{layout.recompute_layers}; leave it out"
    )


def _selective_layers_cure(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, recompute_layers=None)


def _allowed(setting: Setting) -> tuple[str, ...]:
    """Module names of this version; `shared_experts` came with 0.14."""
    return tuple(x for x in MODULES if x != "shared_experts" or setting.version >= (0, 14))


def _known(setting: Setting, table: LayoutTable) -> Bools:
    unknown = (table.recompute_modules & UNKNOWN_MODULE) > 0
    if "shared_experts" not in _allowed(setting):
        unknown |= table.recomputes("shared_experts")
    good: Bools = (table.recompute != _SELECTIVE) | ~unknown
    return good


def _known_message(setting: Setting, layout: Layout) -> str:
    unknown = [x for x in layout.recompute_modules if x not in _allowed(setting)]
    return (
        f"no module to recompute is named {', '.join(unknown) or 'so'}; "
        f"known: {', '.join(_allowed(setting))}"
    )


def _known_cure(setting: Setting, layout: Layout) -> Layout:
    allowed = _allowed(setting)
    return replace(
        layout, recompute_modules=tuple(x for x in layout.recompute_modules if x in allowed)
    )


def _without(layout: Layout, module: str) -> Layout:
    modules = tuple(x for x in layout.recompute_modules if x != module)
    granularity = layout.recompute if modules else "none"
    return replace(layout, recompute=granularity, recompute_modules=modules)


def _activation(setting: Setting, table: LayoutTable) -> Bools:
    if setting.model.experts:
        return always(table)
    good: Bools = ~table.recomputes("moe_act")
    return good


def _activation_message(setting: Setting, layout: Layout) -> str:
    return f"{setting.model.name} has no experts to recompute `moe_act` of; leave the module out"


def _activation_cure(setting: Setting, layout: Layout) -> Layout:
    return _without(layout, "moe_act")


def _projection(setting: Setting, table: LayoutTable) -> Bools:
    if setting.model.latent:
        return always(table)
    good: Bools = ~table.recomputes("mla_up_proj")
    return good


def _projection_message(setting: Setting, layout: Layout) -> str:
    return (
        f"`mla_up_proj` is recomputed only in multi-latent attention, which {setting.model.name} "
        "does not have; leave the module out"
    )


def _projection_cure(setting: Setting, layout: Layout) -> Layout:
    return _without(layout, "mla_up_proj")


def _shared(setting: Setting, table: LayoutTable) -> Bools:
    if setting.model.experts is None or not setting.model.experts.shared_ffn:
        return always(table)
    good: Bools = ~(table.recomputes("shared_experts") & table.overlap_shared_experts)
    return good


def _shared_message(setting: Setting, layout: Layout) -> str:
    return "recompute of `shared_experts` excludes their overlap; turn the overlap off"


def _shared_cure(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, overlap_shared_experts=False)


def _graphs(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = ~(table.cuda_graphs & (table.recompute == _FULL))
    return good


def _graphs_message(setting: Setting, layout: Layout) -> str:
    return "full recompute excludes CUDA graphs of layers; turn the graphs off"


def _graphs_cure(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, cuda_graphs=False)


_CONFIG = "transformer_config.py"

RULES = (
    Rule(
        id="recompute.full_needs_method",
        holds=_full_method,
        message=_full_method_message,
        cure=_full_method_cure,
        source=_CONFIG,
    ),
    Rule(
        id="recompute.full_needs_layers",
        holds=_full_layers,
        message=_full_layers_message,
        cure=_full_layers_cure,
        source=_CONFIG,
    ),
    Rule(
        id="recompute.layers_positive",
        holds=_layers_positive,
        message=_layers_positive_message,
        cure=_full_layers_cure,
        source="transformer_block.py: the loop over layers advances by recompute_num_layers",
        verdict="risky",
    ),
    Rule(
        id="recompute.selective_no_method",
        holds=_selective_method,
        message=_selective_method_message,
        cure=_selective_method_cure,
        source="training/arguments.py",
    ),
    Rule(
        id="recompute.selective_no_layers",
        holds=_selective_layers,
        message=_selective_layers_message,
        cure=_selective_layers_cure,
        source=_CONFIG,
    ),
    Rule(
        id="recompute.modules_known",
        holds=_known,
        message=_known_message,
        cure=_known_cure,
        source=_CONFIG,
    ),
    Rule(
        id="recompute.activation_needs_experts",
        holds=_activation,
        message=_activation_message,
        cure=_activation_cure,
        source=_CONFIG,
    ),
    Rule(
        id="recompute.projection_needs_latent",
        holds=_projection,
        message=_projection_message,
        cure=_projection_cure,
        source=_CONFIG,
    ),
    Rule(
        id="recompute.shared_experts_no_overlap",
        holds=_shared,
        message=_shared_message,
        cure=_shared_cure,
        source=_CONFIG,
        since=(0, 14),
    ),
    Rule(
        id="recompute.full_no_graphs",
        holds=_graphs,
        message=_graphs_message,
        cure=_graphs_cure,
        source=_CONFIG,
    ),
)
