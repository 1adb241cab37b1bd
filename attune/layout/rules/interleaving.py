"""Rules of virtual stages (interleaved pipeline)."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

import numpy as np

from attune.layout.divisors import divisors, largest_divisor
from attune.layout.layout import Layout
from attune.layout.rules.pipeline import is_even, is_uneven, middle
from attune.layout.rules.rule import Rule
from attune.layout.rules.setting import Setting
from attune.layout.table import ABSENT, Bools, LayoutTable, degree


def _pipeline(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = (table.vpp <= 1) | (table.pp > 1)
    return good


def _pipeline_message(setting: Setting, layout: Layout) -> str:
    return (
        f"VPP ({layout.vpp}) needs more than one pipeline stage, but PP is {layout.pp}; "
        "leave VPP out"
    )


def _plain(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, vpp=1)


def _layers(setting: Setting, table: LayoutTable) -> Bools:
    pp, vpp = degree(table.pp), degree(table.vpp)
    whole = setting.model.layers % pp == 0
    good: Bools = ~is_even(table) | ~whole | ((setting.model.layers // pp) % vpp == 0)
    return good


def _layers_message(setting: Setting, layout: Layout) -> str:
    return (
        f"VPP ({layout.vpp}) must divide the layers of a stage "
        f"({setting.model.layers} / {layout.pp}); lower VPP to a divisor"
    )


def _layers_cure(setting: Setting, layout: Layout) -> Layout:
    share = setting.model.layers // max(layout.pp, 1)
    return replace(layout, vpp=largest_divisor(share, layout.vpp) if share else 1)


def _counts(setting: Setting, table: LayoutTable) -> Bools:
    layers, stages = middle(setting, table)
    vpp = degree(table.vpp)
    share = layers // np.where(stages == 0, 1, stages)
    fits = (table.first % vpp == 0) & (table.last % vpp == 0)
    fits &= (stages == 0) | (share % vpp == 0)
    good: Bools = ~is_uneven(table) | fits
    return good


def _counts_message(setting: Setting, layout: Layout) -> str:
    return (
        f"VPP ({layout.vpp}) must divide the layers of the first, last and every middle stage, but "
        f"first = {layout.first or 'not given'}, last = {layout.last or 'not given'} of "
        f"{setting.model.layers} layers; lower VPP or change the counts"
    )


def _counts_cure(setting: Setting, layout: Layout) -> Layout:
    layers, stages = (int(x[0]) for x in middle(setting, LayoutTable.of([layout])))
    shares = [layout.first or 0, layout.last or 0, layers // stages if stages else 0]
    return replace(layout, vpp=largest_divisor(gcd(*map(abs, shares)) or 1, layout.vpp))


def _two_stages(setting: Setting, table: LayoutTable) -> Bools:
    both = (table.first != ABSENT) & (table.last != ABSENT) & (table.pipeline_layout < 0)
    good: Bools = ~(both & (table.pp == 2) & (table.vpp > 1))
    return good


def _two_stages_message(setting: Setting, layout: Layout) -> str:
    return (
        f"with PP 2 and VPP {layout.vpp}, giving both first ({layout.first}) and last "
        f"({layout.last}) makes Megatron divide by zero middle stages; give one of them"
    )


def _two_stages_cure(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, last=None)


def _microbatches(setting: Setting, table: LayoutTable) -> Bools:
    number = table.microbatches(setting.count, setting.workload.global_batch)
    fits = (number >= table.pp) & (number % degree(table.pp) == 0)
    good: Bools = (table.vpp <= 1) | fits
    return good


def _microbatches_message(setting: Setting, layout: Layout) -> str:
    number = LayoutTable.of([layout]).microbatches(setting.count, setting.workload.global_batch)[0]
    return (
        f"with virtual stages, the microbatches of a rank ({number}) must be a multiple of PP "
        f"({layout.pp}); take fewer rows per microbatch, or leave VPP out"
    )


def _microbatches_cure(setting: Setting, layout: Layout) -> Layout:
    rows = setting.workload.global_batch // max(layout.dp(setting.count), 1)
    for fewer in reversed(divisors(max(rows, 1))):
        number = rows // fewer
        if fewer < layout.rows_per_microbatch and number and number % max(layout.pp, 1) == 0:
            return replace(layout, rows_per_microbatch=fewer)
    return replace(layout, vpp=1)


RULES = (
    Rule(
        id="vpp.needs_pipeline",
        holds=_pipeline,
        message=_pipeline_message,
        cure=_plain,
        source="parallel_state.py; training/arguments.py",
    ),
    Rule(
        id="vpp.layers_divide",
        holds=_layers,
        message=_layers_message,
        cure=_layers_cure,
        source="transformer_block.py get_num_layers_to_build",
    ),
    Rule(
        id="vpp.counts_divide",
        holds=_counts,
        message=_counts_message,
        cure=_counts_cure,
        source="transformer_config.py",
    ),
    Rule(
        id="vpp.two_stages_one_count",
        holds=_two_stages,
        message=_two_stages_message,
        cure=_two_stages_cure,
        source="transformer_layer.py get_transformer_layer_offset (division by zero)",
    ),
    Rule(
        id="vpp.microbatches",
        holds=_microbatches,
        message=_microbatches_message,
        cure=_microbatches_cure,
        source="pipeline_parallel/schedules.py, at the first step",
        needs=frozenset({"world", "global_batch", "rows_per_microbatch"}),
    ),
)
