"""The rule of what a framework can express: its restrictions are data of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from attune.catalog.framework import Restriction, Value
from attune.layout.layout import Layout
from attune.layout.rules.rule import Rule, always
from attune.layout.rules.setting import Setting
from attune.layout.table import Bools, LayoutTable


def _expresses(setting: Setting, table: LayoutTable) -> Bools:
    good = always(table)
    for name, restriction in _restrictions(setting):
        layouts = [_with(Layout(), name, value) for value in restriction.only]
        allowed = getattr(LayoutTable.of(layouts), name)
        good &= np.isin(getattr(table, name), allowed)
    return good


def _restrictions(setting: Setting) -> Iterator[tuple[str, Restriction]]:
    for name, restriction in setting.facts.restrictions.items():
        if restriction.holds(setting.version):
            yield name, restriction


def _with(layout: Layout, name: str, value: Value) -> Layout:
    change: dict[str, Any] = {name: value}
    changed: Layout = replace(layout, **change)
    return changed


def _broken(setting: Setting, layout: Layout) -> list[tuple[str, Restriction]]:
    return [
        (name, restriction)
        for name, restriction in _restrictions(setting)
        if getattr(layout, name) not in restriction.only
    ]


def _message(setting: Setting, layout: Layout) -> str:
    return "; ".join(
        f"{setting.facts.name} cannot train with {name}={getattr(layout, name)}: "
        f"{restriction.reason}; use {' or '.join(map(str, restriction.only))}"
        for name, restriction in _broken(setting, layout)
    )


def _cure(setting: Setting, layout: Layout) -> Layout:
    for name, restriction in _broken(setting, layout):
        layout = _with(layout, name, restriction.only[0])
    return layout


RULES = (
    Rule(
        id="framework.expresses",
        holds=_expresses,
        message=_message,
        cure=_cure,
        source="catalog/frameworks: restrictions",
    ),
)
