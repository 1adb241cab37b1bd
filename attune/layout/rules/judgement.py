"""Judges a table of layouts by every rule at once."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from attune.layout.layout import Layout
from attune.layout.rules import (
    batch,
    context,
    device,
    expert_overlap,
    experts,
    explicit,
    framework,
    grid,
    interleaving,
    optimizer,
    pipeline,
    recompute,
    tensor,
)
from attune.layout.rules.rule import Rule
from attune.layout.rules.setting import Setting
from attune.layout.table import Bools, Ints, LayoutTable

_FAMILIES = (
    grid,
    experts,
    tensor,
    pipeline,
    interleaving,
    explicit,
    context,
    batch,
    recompute,
    optimizer,
    expert_overlap,
    device,
    framework,
)
RULES: tuple[Rule, ...] = tuple(rule for family in _FAMILIES for rule in family.RULES)
"""All rules, in the order in which the first broken one is named."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """Which of `RULES` each row of a table breaks."""

    broken: Bools
    """[r, n]; false also where the rule does not concern the setting."""

    @property
    def legal(self) -> Bools:
        """[n] rows that break no rule."""
        legal: Bools = np.logical_not(self.broken.any(axis=0))
        return legal

    @property
    def first(self) -> Ints:
        """[n] index in `RULES` of the first broken rule; -1 where none is."""
        first: Ints = np.where(self.legal, -1, self.broken.argmax(axis=0))
        return first

    def counts(self) -> dict[str, int]:
        """Rows by the id of their first broken rule, most frequent first."""
        numbers = np.bincount(self.first[self.first >= 0], minlength=len(RULES))
        order = np.argsort(-numbers, kind="stable")
        return {RULES[i].id: int(numbers[i]) for i in order if numbers[i]}


@dataclass(frozen=True, kw_only=True, slots=True)
class Broken:
    """One rule that a layout breaks."""

    rule: Rule
    message: str
    """What is wrong, the value got, the remedy."""
    cure: str | None
    """The change that mends it, as one would write it (`tp=4`); None where there is none."""
    cured: Layout | None
    """The layout with that change."""


def check(setting: Setting, table: LayoutTable, absent: frozenset[str] = frozenset()) -> Judgement:
    """Judge every row by every rule that the setting has, except those that need `absent`."""
    broken = np.zeros((len(RULES), len(table)), dtype=np.bool_)
    for index, rule in enumerate(RULES):
        if rule.applies(setting) and not rule.needs & absent:
            broken[index] = ~rule.holds(setting, table)
    return Judgement(broken=broken)


def broken_rules(
    setting: Setting, layout: Layout, absent: frozenset[str] = frozenset()
) -> list[Broken]:
    """Every rule that one layout breaks, with message and cure, in the order of `RULES`."""
    judgement = check(setting, LayoutTable.of([layout]), absent)
    return [explain(rule, setting, layout) for rule in _named(judgement, 0)]


def _named(judgement: Judgement, row: int) -> list[Rule]:
    return [RULES[index] for index in np.flatnonzero(judgement.broken[:, row])]


def explain(rule: Rule, setting: Setting, layout: Layout) -> Broken:
    """Message and cure of one rule that `layout` breaks."""
    cured = rule.cure(setting, layout)
    return Broken(
        rule=rule,
        message=rule.message(setting, layout),
        cure=change(layout, cured) if cured else None,
        cured=cured,
    )


def change(layout: Layout, other: Layout) -> str:
    """The fields in which `other` differs, as one would write them: `pp=8 first=none`."""
    words = []
    for field in fields(Layout):
        value = getattr(other, field.name)
        if value != getattr(layout, field.name):
            words.append(f"{field.name}={_word(value)}")
    return " ".join(words)


def _word(value: object) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return ",".join(value) if isinstance(value, tuple) else f"{value}"
