"""A table of layouts: a struct of NumPy arrays, one row a layout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from attune.layout.layout import Layout

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

DISPATCHERS = ("alltoall", "allgather", "flex")
GRANULARITIES = ("none", "selective", "full")
METHODS = (None, "uniform", "block")
MODULES = ("core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts")
"""Modules of selective recompute in megatron-core; module i is bit i of `recompute_modules`."""
UNKNOWN_MODULE = 1 << len(MODULES)
"""Bit set where a layout names a module that does not exist."""
ABSENT = 0
"""What an integer column holds where the layout says None."""
GIVEN_ZERO = -(2**20)
"""What such a column holds where the layout says 0, which no rule lets pass."""


_LARGEST = 2**20 + 1
"""One more than the largest cluster: a degree this large fits nowhere, and products stay small."""


def degree(column: Ints) -> Ints:
    """A column of degrees, kept between 1 and one that no cluster holds; the rule
    `grid.positive` judges what lies outside."""
    return np.clip(column, 1, _LARGEST)


def modules_mask(modules: Iterable[str]) -> int:
    """Bit mask of recompute modules; an unknown name sets `UNKNOWN_MODULE`."""
    mask = 0
    for module in modules:
        mask |= 1 << MODULES.index(module) if module in MODULES else UNKNOWN_MODULE
    return mask


def modules_of(mask: int) -> tuple[str, ...]:
    """Names behind a bit mask, sorted."""
    return tuple(sorted(name for bit, name in enumerate(MODULES) if mask >> bit & 1))


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutTable:
    """Columns of layouts, all of one length n; names and meaning as in `Layout`.

    `first`, `last`, `recompute_layers` hold 0 (`ABSENT`) for None and `GIVEN_ZERO` for 0.
    `recompute`, `recompute_method`, `dispatcher` are indices into `GRANULARITIES`, `METHODS`,
    `DISPATCHERS`; `recompute_modules` is a bit mask over `MODULES`; `pipeline_layout` is an index
    into `pipeline_layouts`, -1 for none.
    """

    tp: Ints
    pp: Ints
    vpp: Ints
    cp: Ints
    ep: Ints
    etp: Ints
    sequence_parallel: Bools
    rows_per_microbatch: Ints
    first: Ints
    last: Ints
    pipeline_layout: Ints
    recompute: Ints
    recompute_modules: Ints
    recompute_method: Ints
    recompute_layers: Ints
    optimizer_offload: Floats
    overlap_offload: Bools
    precision_aware_optimizer: Bools
    dispatcher: Ints
    overlap_shared_experts: Bools
    overlap_experts: Bools
    overlap_gradients: Bools
    overlap_parameters: Bools
    overlap_tensor: Bools
    cuda_graphs: Bools
    delayed_weight_gradients: Bools
    distributed_optimizer: Bools
    pipeline_layouts: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.tp)

    def dp(self, count: int) -> Ints:
        """Data-parallel degree of each row on `count` GPUs; 0 where the grid is too large."""
        share: Ints = count // (degree(self.tp) * degree(self.pp) * degree(self.cp))
        return share

    def edp(self, count: int) -> Ints:
        """Expert-data-parallel degree of each row on `count` GPUs."""
        share: Ints = count // (degree(self.etp) * degree(self.ep) * degree(self.pp))
        return share

    def microbatches(self, count: int, global_batch: int) -> Ints:
        """Microbatches per step and data-parallel rank, floor; 0 where none is left."""
        rows = degree(self.rows_per_microbatch) * np.maximum(self.dp(count), 1)
        number: Ints = global_batch // rows
        return number

    def recomputes(self, module: str) -> Bools:
        """Rows whose selective recompute covers `module`."""
        bit = 1 << MODULES.index(module)
        default = (self.recompute_modules == 0) & (module == "core_attn")
        selective = self.recompute == GRANULARITIES.index("selective")
        covered: Bools = selective & (((self.recompute_modules & bit) > 0) | default)
        return covered

    def take(self, index: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> LayoutTable:
        """The rows of `index` (integers or a mask), in that order."""
        columns = {name: getattr(self, name)[index] for name in COLUMNS}
        return replace(self, **columns)

    def row(self, index: int) -> Layout:
        """Row `index` as a single layout."""
        values = {name: getattr(self, name)[index].item() for name in COLUMNS}
        values["recompute"] = GRANULARITIES[values["recompute"]]
        values["recompute_modules"] = modules_of(values["recompute_modules"])
        values["recompute_method"] = METHODS[values["recompute_method"]]
        values["dispatcher"] = DISPATCHERS[values["dispatcher"]]
        layout = values["pipeline_layout"]
        values["pipeline_layout"] = self.pipeline_layouts[layout] if layout >= 0 else None
        for name in OPTIONAL:
            values[name] = 0 if values[name] == GIVEN_ZERO else values[name] or None
        return Layout(**values)

    @classmethod
    def of(cls, layouts: Sequence[Layout]) -> LayoutTable:
        """The table of `layouts`, one row each, in order."""
        texts = list(dict.fromkeys(x.pipeline_layout for x in layouts if x.pipeline_layout))
        columns = {
            name: np.array(_encode(name, layouts, texts), dtype=dtype)
            for name, dtype in COLUMNS.items()
        }
        return cls(**columns, pipeline_layouts=tuple(texts))

    @classmethod
    def concatenate(cls, tables: Sequence[LayoutTable]) -> LayoutTable:
        """All rows of `tables` (at least one), in order."""
        texts = list(dict.fromkeys(t for table in tables for t in table.pipeline_layouts))
        shifted = []
        for table in tables:
            places = np.array([*(texts.index(t) for t in table.pipeline_layouts), -1])
            shifted.append(places[table.pipeline_layout])
        columns = {name: np.concatenate([getattr(t, name) for t in tables]) for name in COLUMNS}
        columns["pipeline_layout"] = np.concatenate(shifted)
        return cls(**columns, pipeline_layouts=tuple(texts))


OPTIONAL = ("first", "last", "recompute_layers")
"""Integer fields of a layout that may be None."""
_DTYPES = {"Ints": np.int64, "Bools": np.bool_, "Floats": np.float64}
COLUMNS: dict[str, type[np.generic]] = {
    field.name: _DTYPES[str(field.type)]
    for field in fields(LayoutTable)
    if field.name != "pipeline_layouts"
}
"""Column names of a table and their types, in order."""


def _encode(name: str, layouts: Sequence[Layout], texts: list[str]) -> list[int | float | bool]:
    """One column as numbers."""
    values = [getattr(layout, name) for layout in layouts]
    if name == "recompute_modules":
        masks = {modules: modules_mask(modules) for modules in set(values)}
        return [masks[modules] for modules in values]
    if name == "pipeline_layout":
        return [texts.index(text) if text else -1 for text in values]
    if name in OPTIONAL:
        return [ABSENT if x is None else int(x) or GIVEN_ZERO for x in values]
    codes: dict[str, tuple[str | None, ...]] = {
        "recompute": GRANULARITIES,
        "recompute_method": METHODS,
        "dispatcher": DISPATCHERS,
    }
    return [codes[name].index(x) for x in values] if name in codes else values
