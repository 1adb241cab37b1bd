"""Rules of the grid: degrees are positive and fill the GPUs."""

from __future__ import annotations

from dataclasses import replace

from attune.layout.divisors import largest_divisor
from attune.layout.layout import Layout
from attune.layout.rules.rule import Rule
from attune.layout.rules.setting import Setting
from attune.layout.table import Bools, LayoutTable, degree

_DEGREES = ("tp", "pp", "vpp", "cp", "ep", "etp", "rows_per_microbatch")


def _positive(setting: Setting, table: LayoutTable) -> Bools:
    good = table.tp >= 1
    for name in _DEGREES[1:]:
        good &= getattr(table, name) >= 1
    return good


def _positive_message(setting: Setting, layout: Layout) -> str:
    bad = ", ".join(f"{x} = {getattr(layout, x)}" for x in _DEGREES if getattr(layout, x) < 1)
    return f"degrees and rows per microbatch must be at least 1, but got {bad}; raise them to 1"


def _positive_cure(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, **{name: max(getattr(layout, name), 1) for name in _DEGREES})


def _world(setting: Setting, table: LayoutTable) -> Bools:
    size = degree(table.tp) * degree(table.pp) * degree(table.cp)
    good: Bools = setting.count % size == 0
    return good


def _world_message(setting: Setting, layout: Layout) -> str:
    return (
        f"TP x PP x CP ({layout.tp} x {layout.pp} x {layout.cp}) must divide the number of GPUs "
        f"({setting.count}); lower one of them to a divisor"
    )


def _world_cure(setting: Setting, layout: Layout) -> Layout:
    tp = largest_divisor(setting.count, layout.tp)
    pp = largest_divisor(setting.count // tp, layout.pp)
    cp = largest_divisor(setting.count // (tp * pp), layout.cp)
    return replace(layout, tp=tp, pp=pp, cp=cp)


def _expert_world(setting: Setting, table: LayoutTable) -> Bools:
    size = degree(table.etp) * degree(table.ep) * degree(table.pp)
    good: Bools = setting.count % size == 0
    return good


def _expert_world_message(setting: Setting, layout: Layout) -> str:
    return (
        f"ETP x EP x PP ({layout.etp} x {layout.ep} x {layout.pp}) must divide the number of GPUs "
        f"({setting.count}); lower EP or ETP (ETP is TP where it is not given)"
    )


def _expert_world_cure(setting: Setting, layout: Layout) -> Layout:
    pp = largest_divisor(setting.count, layout.pp)
    ep = largest_divisor(setting.count // pp, layout.ep)
    etp = largest_divisor(setting.count // (pp * ep), layout.etp)
    return replace(layout, pp=pp, ep=ep, etp=etp)


RULES = (
    Rule(
        id="grid.positive",
        holds=_positive,
        message=_positive_message,
        cure=_positive_cure,
        source="megatron-core 0.16.1: argument checks, or a division by zero",
    ),
    Rule(
        id="grid.world_divides",
        holds=_world,
        message=_world_message,
        cure=_world_cure,
        source="parallel_state.py initialize_model_parallel",
        needs=frozenset({"world"}),
    ),
    Rule(
        id="grid.expert_world_divides",
        holds=_expert_world,
        message=_expert_world_message,
        cure=_expert_world_cure,
        source="parallel_state.py initialize_model_parallel",
        needs=frozenset({"world"}),
    ),
)
