"""One layout as a row of text: which cells are given, and what they say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attune.layout.layout import Layout
from attune.layout.table import DISPATCHERS

INPUTS = (
    "model",
    "world",
    "seq_len",
    "global_batch",
    "micro_batch",
    "tp",
    "pp",
    "vpp",
    "cp",
    "ep",
    "etp",
    "sequence_parallel",
    "first",
    "last",
    "recompute_granularity",
    "recompute_method",
    "recompute_num_layers",
    "recompute_modules",
    "moe_shared_expert_overlap",
    "optimizer_cpu_offload",
    "precision_aware_optimizer",
    "overlap_moe_ep_comm",
    "dispatcher",
    "rank",
)
"""Columns that are read; every other column of a table is ignored."""

_WHOLE = re.compile(r"[+-]?\d{1,12}(\.0{1,6})?", re.ASCII)
_LARGEST_WORLD = 2**20
_SWITCHES = {"1": True, "true": True, "0": False, "false": False, "": False}
_CHOICES = {
    "recompute_granularity": ("", "selective", "full"),
    "recompute_method": ("", "uniform", "block"),
    "dispatcher": ("", *DISPATCHERS),
}


class UnreadableError(Exception):
    """A row that cannot be judged, or that argument parsing itself would reject."""

    def __init__(self, message: str, rule: str | None = None) -> None:
        super().__init__(message)
        self.rule = rule
        """Id of the rule that rejects the value; None where the row cannot be judged."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What a row says; absent inputs hold a stand-in, and their names are in `absent`."""

    model: str
    world: int
    row_tokens: int
    global_batch: int
    layout: Layout
    absent: frozenset[str]
    """Inputs that the row lacks, as rules name them."""

    @property
    def group(self) -> tuple[object, ...]:
        """Rows with equal groups can be judged as one table."""
        return self.model, self.absent


def read_row(cells: Mapping[str, str]) -> Reading:
    """The layout and setting of one row.

    Raises:
        UnreadableError: no model, a malformed number or switch, or a value that does not exist.
    """
    if not cells.get("model"):
        raise UnreadableError("the row names no model; fill in the column `model`")
    for name, choices in _CHOICES.items():
        if cells.get(name, "") not in choices:
            known = ", ".join(filter(None, choices))
            family = "dispatcher" if name == "dispatcher" else "recompute"
            raise UnreadableError(
                f"{name} `{cells[name][:40]}` is none of {known}", f"{family}.known"
            )
    return Reading(
        model=cells["model"],
        world=_size(cells, "world", 1, _LARGEST_WORLD),
        row_tokens=_size(cells, "seq_len", 1),
        global_batch=_size(cells, "global_batch", 1),
        layout=_layout(cells),
        absent=_absent(cells),
    )


def _absent(cells: Mapping[str, str]) -> frozenset[str]:
    sizes = {
        "world": "world",
        "row_tokens": "seq_len",
        "global_batch": "global_batch",
        "rows_per_microbatch": "micro_batch",
        "sequence_parallel": "sequence_parallel",
    }
    empty = {rule for rule, column in sizes.items() if not cells.get(column)}
    missing = {x for x in ("dispatcher", "precision_aware_optimizer") if x not in cells}
    return frozenset(empty | missing)


def _layout(cells: Mapping[str, str]) -> Layout:
    tp = _number(cells, "tp", 1)
    return Layout(
        tp=tp,
        pp=_number(cells, "pp", 1),
        vpp=_number(cells, "vpp", 1),
        cp=_number(cells, "cp", 1),
        ep=_number(cells, "ep", 1),
        etp=_number(cells, "etp", tp),
        sequence_parallel=_switch(cells, "sequence_parallel"),
        rows_per_microbatch=_number(cells, "micro_batch", 1),
        first=_optional(cells, "first"),
        last=_optional(cells, "last"),
        **_recompute(cells),
        optimizer_offload=float(_switch(cells, "optimizer_cpu_offload")),
        precision_aware_optimizer=_switch(cells, "precision_aware_optimizer"),
        overlap_shared_experts=_switch(cells, "moe_shared_expert_overlap"),
        overlap_experts=_switch(cells, "overlap_moe_ep_comm"),
        dispatcher=cells.get("dispatcher") or "allgather",  # type: ignore[arg-type]
    )


def _recompute(cells: Mapping[str, str]) -> dict[str, Any]:
    return {
        "recompute": cells.get("recompute_granularity") or "none",
        "recompute_method": cells.get("recompute_method") or None,
        "recompute_layers": _optional(cells, "recompute_num_layers"),
        "recompute_modules": tuple(
            sorted(filter(None, re.split(r"[\s,]+", cells.get("recompute_modules", ""))))
        ),
    }


def _optional(cells: Mapping[str, str], name: str) -> int | None:
    """A whole number, `8.0` included, as spreadsheets write it; None for an empty cell."""
    text = cells.get(name, "")
    if not text:
        return None
    if not _WHOLE.fullmatch(text):
        raise UnreadableError(
            f"{name} must be a whole number of at most 12 digits, but got `{text[:40]}`; "
            "mend the cell"
        )
    return int(text.partition(".")[0])


def _number(cells: Mapping[str, str], name: str, default: int) -> int:
    value = _optional(cells, name)
    return default if value is None else value


def _size(cells: Mapping[str, str], name: str, default: int, largest: int = 10**12) -> int:
    value = _number(cells, name, default)
    if not 1 <= value <= largest:
        raise UnreadableError(
            f"{name} must be between 1 and {largest}, but got {value}; mend the cell"
        )
    return value


def _switch(cells: Mapping[str, str], name: str) -> bool:
    text = cells.get(name, "").lower().removesuffix(".0")
    if text not in _SWITCHES:
        raise UnreadableError(f"{name} must be 0 or 1, but got `{text[:40]}`; mend the cell")
    return _SWITCHES[text]
