"""All points of a search space as a table, behind the rules of the grid."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from attune.catalog import Model
from attune.errors import AttuneError
from attune.layout.dimensions import Counts, Space, default_space, hold, load_space
from attune.layout.layout import Layout
from attune.layout.notation import parse_layout
from attune.layout.rules import RULES, Setting, check
from attune.layout.stage_choices import stage_choices
from attune.layout.table import COLUMNS, MODULES, Ints, LayoutTable
from attune.workload import Workload

__all__ = ["Drawn", "Space", "default_space", "enumerate_layouts", "load_space"]

_MOST = 20_000_000
"""Points of one space; more would not fit the memory of a laptop once judged."""
GRID = ("tp", "cp", "ep", "etp")
"""Dimensions of the grid, besides the pipeline's pp, vpp and stages."""
PIPELINE = ("pp", "vpp", "stages")
OPTIONS = tuple(
    x for x in Space.model_fields if x not in (*GRID, *PIPELINE, "name", "about", "choose")
)
"""Dimensions that multiply every point of the grid."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawn:
    """The points of a space."""

    table: LayoutTable
    """Points that every rule of the grid lets pass; the other rules are still to be checked."""
    drawn: int
    """Points of the space as it is stated."""
    cut: dict[str, int]
    """Points left out of the table, by the id of the rule that cut them."""


def enumerate_layouts(
    space: Space, model: Model, count: int, fixed: dict[str, Any] | None = None
) -> Drawn:
    """All points of a space for a model on `count` GPUs, `fixed` dimensions held at one value.

    Raises:
        AttuneError: an unknown dimension in `fixed`, or a space of too many points.
    """
    if space.choose:
        space = load_space(space.choose[default_space(model)])
    space = hold(space, fixed or {})
    pipelines, texts = _pipelines(space, model)
    options = _options(space, model)
    width = len(options["recompute"])
    drawn = len(pipelines["pp"]) * width * prod(len(getattr(space, x)) for x in GRID)
    if drawn > _MOST:
        raise AttuneError(
            f"search space `{space.name}` has {drawn:,} points, over {_MOST:,}; "
            "take values out of its dimensions"
        )
    grid = _grid(space, pipelines, texts)
    setting = Setting(model=model, count=count, workload=Workload())
    judgement = check(setting, grid, absent=_LATER)
    cut = {rule: number * width for rule, number in judgement.counts().items()}
    table = _expand(grid.take(judgement.legal), options, space)
    return Drawn(table=table, drawn=drawn, cut=cut)


_LATER = frozenset({"row_tokens", "global_batch", "rows_per_microbatch"})
assert {x for rule in RULES for x in rule.needs} >= _LATER


def _pipelines(space: Space, model: Model) -> tuple[dict[str, Ints], tuple[str, ...]]:
    """Columns pp, vpp, first, last, pipeline_layout of every pipeline, and the layout strings."""
    texts = tuple(dict.fromkeys(x.layout for x in _given(space) if x.layout))
    rows: list[tuple[int, int, int, int, int]] = []
    for pp in space.pp:
        for vpp in space.vpp:
            splits = dict.fromkeys(
                x for kind in space.stages for x in _splits(kind, model, pp, vpp)
            )
            for first, last, text in splits:
                place = texts.index(text) if text else -1
                rows.append((pp, vpp, first or 0, last or 0, place))
    columns = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    names = ("pp", "vpp", "first", "last", "pipeline_layout")
    return dict(zip(names, columns, strict=True)), texts


def _given(space: Space) -> list[Counts]:
    return [x for x in space.stages if isinstance(x, Counts)]


def _splits(
    kind: Counts | str, model: Model, pp: int, vpp: int
) -> list[tuple[int | None, int | None, str | None]]:
    if isinstance(kind, Counts):
        matches = kind.pp in (None, pp)
        return [(kind.first, kind.last, kind.layout)] if matches else []
    choices = stage_choices(model, pp, vpp) if kind == "auto" else ()
    return [(first, last, None) for first, last in choices or ((None, None),)]


def _product(columns: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """Every combination of the values of the columns."""
    places = np.indices([len(x) for x in columns.values()]).reshape(len(columns), -1)
    return {name: np.asarray(x)[place] for (name, x), place in zip(columns.items(), places)}


def _grid(space: Space, pipelines: dict[str, Ints], texts: tuple[str, ...]) -> LayoutTable:
    etp = np.array([0 if x == "tp" else x for x in space.etp])
    values = {name: np.array(getattr(space, name)) for name in ("tp", "cp", "ep")}
    columns = _product({**values, "etp": etp, "pipeline": np.arange(len(pipelines["pp"]))})
    columns["etp"] = np.where(columns["etp"] == 0, columns["tp"], columns["etp"])
    place = columns.pop("pipeline")
    columns |= {name: column[place] for name, column in pipelines.items()}
    return _table(columns, texts, len(place))


def _table(
    columns: dict[str, np.ndarray[Any, Any]], texts: tuple[str, ...], length: int
) -> LayoutTable:
    """A table of the given columns, the others as in a layout that says nothing else."""
    plain = LayoutTable.of([parse_layout("tp=1")])
    full = {
        name: np.repeat(getattr(plain, name), length) for name in COLUMNS if name not in columns
    }
    full |= {name: column.astype(COLUMNS[name]) for name, column in columns.items()}
    if "sequence_parallel" not in columns:
        full["sequence_parallel"] = full["tp"] > 1
    return LayoutTable(**full, pipeline_layouts=texts)


def _options(space: Space, model: Model) -> dict[str, np.ndarray[Any, Any]]:
    """Columns of every combination of the other dimensions, [m]; `auto` ones are left out."""
    given = {x: getattr(space, x) for x in OPTIONS if getattr(space, x) != "auto"}
    layouts = LayoutTable.of([_recompute(x) for x in space.recompute])
    dispatchers = LayoutTable.of([parse_layout(f"dispatcher={x}") for x in space.dispatcher])
    columns = {name: np.array(values) for name, values in given.items()}
    if not (model.experts and model.experts.shared_ffn):
        # Without shared experts both values are one layout.
        columns["overlap_shared_experts"] = np.array([False])
    columns["recompute"] = np.arange(len(space.recompute))
    columns["dispatcher"] = dispatchers.dispatcher
    combined = _product(columns)
    place = combined["recompute"]
    for name in ("recompute", "recompute_modules", "recompute_method", "recompute_layers"):
        combined[name] = getattr(layouts, name)[place]
    return combined


def _recompute(text: str) -> Layout:
    layout = parse_layout(f"recompute={text}")
    unknown = [module for module in layout.recompute_modules if module not in MODULES]
    if unknown:
        known = ", ".join(("none", "full", *MODULES))
        raise AttuneError(f"nothing to recompute is named `{unknown[0]}`; known: {known}")
    return layout


def _expand(
    grid: LayoutTable, options: dict[str, np.ndarray[Any, Any]], space: Space
) -> LayoutTable:
    """Every row of the grid with every combination of options."""
    width = len(options["recompute"])
    columns = {
        name: np.tile(options[name], len(grid))
        if name in options
        else np.repeat(getattr(grid, name), width)
        for name in COLUMNS
    }
    offloaded = columns["optimizer_offload"] > 0
    columns["overlap_offload"] = offloaded
    if space.precision_aware_optimizer == "auto":
        columns["precision_aware_optimizer"] = offloaded
    typed = {name: column.astype(COLUMNS[name], copy=False) for name, column in columns.items()}
    return LayoutTable(**typed, pipeline_layouts=grid.pipeline_layouts)
