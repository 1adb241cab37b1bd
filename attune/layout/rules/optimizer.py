"""Rules of the optimizer, its offload, and data-parallel overlaps."""

from __future__ import annotations

from dataclasses import replace

from attune.layout.layout import Layout
from attune.layout.rules.rule import Rule
from attune.layout.rules.setting import Setting
from attune.layout.table import Bools, LayoutTable


def _share(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = (table.optimizer_offload >= 0) & (table.optimizer_offload <= 1)
    return good


def _share_message(setting: Setting, layout: Layout) -> str:
    return (
        "the share of the optimizer on the host lies between 0 and 1, but got "
        f"{layout.optimizer_offload:g}; give a share, as in 0.9"
    )


def _share_cure(setting: Setting, layout: Layout) -> Layout:
    inside = layout.optimizer_offload == layout.optimizer_offload  # not a NaN
    share = min(max(layout.optimizer_offload, 0.0), 1.0) if inside else 0.0
    return replace(layout, optimizer_offload=share)


def _aware(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = ~(table.optimizer_offload > 0) | table.precision_aware_optimizer
    return good


def _aware_message(setting: Setting, layout: Layout) -> str:
    return (
        f"optimizer offload ({layout.optimizer_offload:g}) needs the precision-aware optimizer; "
        "turn it on"
    )


def _aware_cure(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, precision_aware_optimizer=True)


def _distributed(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = ~table.precision_aware_optimizer | table.distributed_optimizer
    return good


def _distributed_message(setting: Setting, layout: Layout) -> str:
    return "the precision-aware optimizer needs the distributed optimizer; turn that on"


def _distributed_cure(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, distributed_optimizer=True)


def _gather(setting: Setting, table: LayoutTable) -> Bools:
    base = table.overlap_gradients & table.distributed_optimizer
    good: Bools = ~table.overlap_parameters | base
    return good


def _gather_message(setting: Setting, layout: Layout) -> str:
    return (
        "overlap of the parameter gather needs overlap of the gradient reduction and the "
        "distributed optimizer; turn both on"
    )


def _gather_cure(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, overlap_gradients=True, distributed_optimizer=True)


def _crash(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = ~(table.overlap_gradients | table.overlap_parameters)
    return good


def _crash_message(setting: Setting, layout: Layout) -> str:
    return (
        f"{setting.facts.name} crashes at the second step with overlap of the gradient reduction "
        "or parameter gather; turn both off"
    )


def _crash_cure(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, overlap_gradients=False, overlap_parameters=False)


RULES = (
    Rule(
        id="optimizer.offload_share",
        holds=_share,
        message=_share_message,
        cure=_share_cure,
        source="optimizer_config.py: optimizer_offload_fraction is a share",
    ),
    Rule(
        id="optimizer.offload_needs_precision_aware",
        holds=_aware,
        message=_aware_message,
        cure=_aware_cure,
        source="training/arguments.py",
        needs=frozenset({"precision_aware_optimizer"}),
    ),
    Rule(
        id="optimizer.precision_aware_needs_distributed",
        holds=_distributed,
        message=_distributed_message,
        cure=_distributed_cure,
        source="optimizer_config.py",
    ),
    Rule(
        id="overlap.parameters_need_gradients",
        holds=_gather,
        message=_gather_message,
        cure=_gather_cure,
        source="training/arguments.py",
    ),
    Rule(
        id="overlap.gradients_crash",
        holds=_crash,
        message=_crash_message,
        cure=_crash_cure,
        source="slime issue 1779: train() asserts no_sync_func is None",
        extra=True,
    ),
)
