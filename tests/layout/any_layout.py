"""Layouts for property tests: any combination of values, legal or not."""

from __future__ import annotations

from dataclasses import fields

from hypothesis import strategies

from attune.layout import Layout
from attune.layout.table import DISPATCHERS, GRANULARITIES, METHODS, MODULES

_PIPELINE_LAYOUTS = (None, "Et*3|(tt|)*29L", "Et|t|t|tL", "Et*4|(t*4|)*14tmL", "nonsense")


def _values(name: str, kind: str):
    if name == "recompute_modules":
        chosen = strategies.sets(strategies.sampled_from(MODULES))
        return chosen.map(lambda modules: tuple(sorted(modules)))
    sampled = {
        "dispatcher": DISPATCHERS,
        "recompute": GRANULARITIES,
        "recompute_method": METHODS,
        "pipeline_layout": _PIPELINE_LAYOUTS,
    }
    if name in sampled:
        return strategies.sampled_from(sampled[name])
    if kind == "bool":
        return strategies.booleans()
    if kind == "float":
        return strategies.floats(0, 1) | strategies.sampled_from((0.0, 0.9, 1.0))
    whole = strategies.integers(1, 4096)
    return whole | strategies.none() if kind.endswith("None") else whole


ANY_LAYOUT = strategies.builds(
    Layout, **{field.name: _values(field.name, str(field.type)) for field in fields(Layout)}
)
