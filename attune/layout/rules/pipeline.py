"""Rules of pipeline stages: even, and with first and last counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attune.layout.layout import Layout
from attune.layout.rules.rule import Rule
from attune.layout.rules.setting import Setting
from attune.layout.stage_choices import stage_choices
from attune.layout.table import ABSENT, Bools, Ints, LayoutTable, degree


def is_even(table: LayoutTable) -> Bools:
    """[n] rows with neither first and last counts nor an explicit layout."""
    even: Bools = (table.first == ABSENT) & (table.last == ABSENT) & (table.pipeline_layout < 0)
    return even


def is_uneven(table: LayoutTable) -> Bools:
    """[n] rows with a first or last count."""
    given: Bools = (table.first != ABSENT) | (table.last != ABSENT)
    return given & (table.pipeline_layout < 0)


def middle(setting: Setting, table: LayoutTable) -> tuple[Ints, Ints]:
    """[n] layers and [n] stages left between the first and last counts, either may be negative."""
    layers: Ints = setting.model.layers - table.first - table.last
    given = (table.first != ABSENT).astype(np.int64) + (table.last != ABSENT)
    stages: Ints = degree(table.pp) - given
    return layers, stages


def balanced(setting: Setting, layout: Layout) -> Layout:
    """The layout with the best legal split near its PP and VPP."""
    for pp in range(min(max(layout.pp, 1), setting.model.layers), 0, -1):
        for vpp in dict.fromkeys((max(layout.vpp, 1), 1)):
            for first, last in stage_choices(setting.model, pp, vpp, 1):
                return replace(layout, pp=pp, vpp=vpp, first=first, last=last, pipeline_layout=None)
    return replace(layout, pp=1, vpp=1, first=None, last=None, pipeline_layout=None)


def _layers(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = ~is_even(table) | (setting.model.layers % degree(table.pp) == 0)
    return good


def _layers_message(setting: Setting, layout: Layout) -> str:
    return (
        f"PP ({layout.pp}) must divide the layers ({setting.model.layers}); give first and last "
        "counts, or change PP"
    )


def _positive(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = (table.first >= ABSENT) & (table.last >= ABSENT)
    return good


def _positive_message(setting: Setting, layout: Layout) -> str:
    return (
        "first and last counts must be at least 1, but got "
        f"first = {layout.first}, last = {layout.last}; leave a count out for an even share"
    )


def _positive_cure(setting: Setting, layout: Layout) -> Layout:
    first = layout.first if layout.first and layout.first > 0 else None
    last = layout.last if layout.last and layout.last > 0 else None
    return replace(layout, first=first, last=last)


def _matches(setting: Setting, table: LayoutTable) -> Bools:
    layers, stages = middle(setting, table)
    good: Bools = ~is_uneven(table) | ((layers != 0) == (stages != 0))
    return good


def _split_words(setting: Setting, layout: Layout) -> str:
    given = [x for x in (layout.first, layout.last) if x is not None]
    layers, stages = setting.model.layers - sum(given), layout.pp - len(given)
    return (
        f"first = {_count(layout.first)} and last = {_count(layout.last)} of "
        f"{setting.model.layers} layers leave {layers} layers for {stages} middle stages"
    )


def _count(value: int | None) -> str:
    return "not given" if value is None else str(value)


def _matches_message(setting: Setting, layout: Layout) -> str:
    return f"{_split_words(setting, layout)}; both must be 0, or neither: change the counts or PP"


def _divides(setting: Setting, table: LayoutTable) -> Bools:
    layers, stages = middle(setting, table)
    good: Bools = (
        ~is_uneven(table) | (stages == 0) | (layers % np.where(stages == 0, 1, stages) == 0)
    )
    return good


def _divides_message(setting: Setting, layout: Layout) -> str:
    return f"{_split_words(setting, layout)}, which does not divide; change the counts or PP"


def _within(setting: Setting, table: LayoutTable) -> Bools:
    layers, _ = middle(setting, table)
    good: Bools = ~is_uneven(table) | (layers >= 0) | (table.pp <= 1)
    return good


def _within_message(setting: Setting, layout: Layout) -> str:
    return (
        f"{_split_words(setting, layout)}: Megatron accepts this and builds layers twice or on the "
        "wrong stage; lower the counts"
    )


def _one_stage(setting: Setting, table: LayoutTable) -> Bools:
    both = (table.first != ABSENT) & (table.last != ABSENT) & (table.pipeline_layout < 0)
    good: Bools = ~(both & (table.pp <= 1)) | (table.last == setting.model.layers)
    return good


def _one_stage_message(setting: Setting, layout: Layout) -> str:
    return (
        f"with PP 1, first = {layout.first} and last = {layout.last} make Megatron build only "
        f"{layout.last} of {setting.model.layers} layers, without an error; leave both out"
    )


RULES = (
    Rule(
        id="pp.layers_divide",
        holds=_layers,
        message=_layers_message,
        cure=balanced,
        source="training/arguments.py; transformer_block.py get_num_layers_to_build",
    ),
    Rule(
        id="pp.counts_positive",
        holds=_positive,
        message=_positive_message,
        cure=_positive_cure,
        source="transformer_config.py",
    ),
    Rule(
        id="pp.counts_leave_middle",
        holds=_matches,
        message=_matches_message,
        cure=balanced,
        source="transformer_config.py",
    ),
    Rule(
        id="pp.middle_divides",
        holds=_divides,
        message=_divides_message,
        cure=balanced,
        source="transformer_config.py",
    ),
    Rule(
        id="pp.counts_within_layers",
        holds=_within,
        message=_within_message,
        cure=balanced,
        source="a gap of megatron-core 0.16.1: a negative middle that divides is accepted",
        verdict="silently_wrong",
    ),
    Rule(
        id="pp.one_stage_no_counts",
        holds=_one_stage,
        message=_one_stage_message,
        cure=balanced,
        source="Megatron-LM issue 1778; a gap of megatron-core 0.16.1",
        verdict="silently_wrong",
    ),
)
