"""Rules of Megatron's explicit pipeline layout, for example `Et*3|(tt|)*29L`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from attune.errors import LayoutError
from attune.layout.layout import Layout
from attune.layout.pipeline_layout import expand
from attune.layout.rules.pipeline import balanced
from attune.layout.rules.rule import Rule
from attune.layout.rules.setting import Setting
from attune.layout.table import ABSENT, Bools, Ints, LayoutTable

_SOURCE = "pipeline_parallel_layer_layout.py"


def _stages(text: str) -> list[str]:
    try:
        return expand(text)
    except LayoutError:
        return []


def _by_text(table: LayoutTable, judge: Callable[[list[str]], int]) -> Ints:
    """[n] `judge` of the stages of each row's layout; 0 for rows without one."""
    answers = [judge(_stages(text)) for text in table.pipeline_layouts]
    column: Ints = np.array([*answers, 0], dtype=np.int64)[table.pipeline_layout]
    return column


def _explicit(table: LayoutTable) -> Bools:
    given: Bools = table.pipeline_layout >= 0
    return given


def _grammar(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = ~_explicit(table) | (_by_text(table, len) > 0)
    return good


def _grammar_message(setting: Setting, layout: Layout) -> str:
    return (
        f"pipeline layout `{(layout.pipeline_layout or '')[:80]}` is not of the form "
        "`Et*3|(tt|)*29L`: E embedding, t layer, m MTP layer, L loss, `|` between stages"
    )


def _divides(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = ~_explicit(table) | (_by_text(table, len) % np.maximum(table.pp, 1) == 0)
    return good


def _divides_message(setting: Setting, layout: Layout) -> str:
    stages = len(_stages(layout.pipeline_layout or ""))
    return (
        f"PP ({layout.pp}) must divide the stages of the pipeline layout ({stages}); "
        "change PP or the layout"
    )


def _virtual(setting: Setting, table: LayoutTable) -> Bools:
    stages = _by_text(table, len) // np.maximum(table.pp, 1)
    good: Bools = ~_explicit(table) | (table.vpp == np.maximum(stages, 1))
    return good


def _virtual_message(setting: Setting, layout: Layout) -> str:
    stages = len(_stages(layout.pipeline_layout or ""))
    return (
        f"the pipeline layout has {stages} stages for PP {layout.pp}, so VPP is "
        f"{stages // max(layout.pp, 1)}, but got {layout.vpp}; set VPP so"
    )


def _virtual_cure(setting: Setting, layout: Layout) -> Layout:
    stages = len(_stages(layout.pipeline_layout or ""))
    return replace(layout, vpp=max(stages // max(layout.pp, 1), 1))


def _complete(setting: Setting, table: LayoutTable) -> Bools:
    def whole(stages: list[str]) -> int:
        text = "".join(stages)
        ends = text.startswith("E") and text.endswith("L")
        once = text.count("E") == 1 and text.count("L") == 1
        return int(ends and once and text.count("t") == setting.model.layers and "m" not in text)

    good: Bools = ~_explicit(table) | (_by_text(table, whole) > 0)
    return good


def _complete_message(setting: Setting, layout: Layout) -> str:
    text = "".join(_stages(layout.pipeline_layout or ""))
    return (
        f"a pipeline layout must be one E, {setting.model.layers} t and one L, in that order, but "
        f"got {text.count('E')} E, {text.count('t')} t, {text.count('m')} m, {text.count('L')} L; "
        "mend the layout (MTP layers are not trained)"
    )


def _alone(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = ~_explicit(table) | ((table.first == ABSENT) & (table.last == ABSENT))
    return good


def _alone_message(setting: Setting, layout: Layout) -> str:
    return (
        "a pipeline layout takes the place of first and last counts, but got "
        f"first = {layout.first}, last = {layout.last}; leave the counts out"
    )


def _alone_cure(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, first=None, last=None)


def _filled(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = ~_explicit(table) | (_by_text(table, lambda x: x.count("")) == 0)
    return good


def _filled_message(setting: Setting, layout: Layout) -> str:
    return (
        "the pipeline layout has a stage with nothing on it, which is known to hang; "
        "put a layer there, or take fewer stages"
    )


RULES = (
    Rule(
        id="pipeline_layout.grammar",
        holds=_grammar,
        message=_grammar_message,
        cure=balanced,
        source=_SOURCE,
        since=(0, 13),
    ),
    Rule(
        id="pipeline_layout.stages_divide",
        holds=_divides,
        message=_divides_message,
        cure=balanced,
        source="training/arguments.py",
        since=(0, 13),
    ),
    Rule(
        id="pipeline_layout.virtual_stages_agree",
        holds=_virtual,
        message=_virtual_message,
        cure=_virtual_cure,
        source="transformer_config.py",
        since=(0, 13),
    ),
    Rule(
        id="pipeline_layout.complete",
        holds=_complete,
        message=_complete_message,
        cure=balanced,
        source=_SOURCE,
        since=(0, 13),
    ),
    Rule(
        id="pipeline_layout.no_counts",
        holds=_alone,
        message=_alone_message,
        cure=_alone_cure,
        source="transformer_config.py",
        since=(0, 13),
    ),
    Rule(
        id="pipeline_layout.no_empty_stage",
        holds=_filled,
        message=_filled_message,
        cure=balanced,
        source="Megatron-LM issue 1852",
        verdict="risky",
        since=(0, 13),
    ),
)
