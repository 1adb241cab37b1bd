"""Layouts as people write them: `tp=4 pp=16 ep=8 first=5 last=3`, and back."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

from attune.catalog import nearest
from attune.errors import AttuneError
from attune.layout.layout import Layout

_SHORT = {
    "sp": "sequence_parallel",
    "rows": "rows_per_microbatch",
    "mbs": "rows_per_microbatch",
    "modules": "recompute_modules",
    "method": "recompute_method",
    "recompute_num_layers": "recompute_layers",
    "offload": "optimizer_offload",
    "layout": "pipeline_layout",
}
_TYPES = {field.name: str(field.type) for field in fields(Layout)}


def parse_layout(text: str) -> Layout:
    """The layout that `text` (`name=value` pairs) describes.

    Sequence parallel is on with TP over 1 unless said otherwise, as MoE training requires and
    every published recipe has it. `recompute` takes none, full, selective, or modules
    (`recompute=core_attn,moe`). `vpp=2` and the like are taken as they are, legal or not.

    Raises:
        AttuneError: an unknown field, or a value of the wrong type.
    """
    values: dict[str, Any] = {}
    for word in text.split():
        name, sign, value = word.partition("=")
        if not sign or not value:
            raise AttuneError(f"`{word}` is not of the form name=value, as in `tp=4 pp=16`")
        key = _SHORT.get(name, name)
        if key not in _TYPES:
            near = nearest(name, [*_TYPES, *_SHORT])
            hint = f"; did you mean `{near}`?" if near else ""
            raise AttuneError(f"a layout has no field `{name}`{hint}")
        if key in values:
            raise AttuneError(f"`{key}` is given twice in `{text}`; give it once")
        values[key] = _value(key, value)
    return Layout(**_completed(values))


def _completed(values: dict[str, Any]) -> dict[str, Any]:
    values.setdefault("sequence_parallel", values.get("tp", 1) > 1)
    recompute = values.get("recompute", "none")
    if recompute not in ("none", "selective", "full"):
        values["recompute"] = "selective"
        values["recompute_modules"] = tuple(sorted(recompute.split(",")))
    elif recompute == "full":
        values.setdefault("recompute_method", "uniform")
        values.setdefault("recompute_layers", 1)
    if values.get("optimizer_offload", 0) > 0:
        values.setdefault("precision_aware_optimizer", True)
    return values


def _value(key: str, text: str) -> Any:
    kind = _TYPES[key]
    if kind == "bool":
        if text.lower() in ("1", "true", "yes", "on"):
            return True
        if text.lower() in ("0", "false", "no", "off"):
            return False
        raise AttuneError(f"`{key}` is on or off, but got `{text}`")
    if kind.startswith("int"):
        if not re.fullmatch(r"-?\d{1,12}", text):
            raise AttuneError(f"`{key}` is a whole number, but got `{text}`")
        return int(text)
    if kind == "float":
        try:
            return float(text)
        except ValueError:
            raise AttuneError(f"`{key}` is a number, but got `{text}`") from None
    if key == "recompute_modules":
        return tuple(sorted(text.split(",")))
    if key == "dispatcher" and text not in ("alltoall", "allgather", "flex"):
        raise AttuneError(f"`dispatcher` is alltoall, allgather or flex, but got `{text}`")
    if key == "recompute_method" and text not in ("uniform", "block"):
        raise AttuneError(f"`recompute_method` is uniform or block, but got `{text}`")
    return text


def write_layout(layout: Layout) -> str:
    """One canonical line for a layout; `parse_layout` reads it back to an equal one."""
    words = []
    for name in _TYPES:
        value = getattr(layout, name)
        default = layout.tp > 1 if name == "sequence_parallel" else _DEFAULTS[name]
        if name in ("tp", "pp") or value != default:
            words.append(f"{_LONG.get(name, name)}={_text(value)}")
    return " ".join(words)


_DEFAULTS = {name: getattr(Layout(), name) for name in _TYPES}
_LONG = {"rows_per_microbatch": "rows", "optimizer_offload": "offload", "sequence_parallel": "sp"}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ",".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def label(layout: Layout, count: int) -> str:
    """The label of a recipe page: `TP4 PP16 EP8 DP2`; CP and VPP where they are not 1."""
    parts = [f"TP{layout.tp}", f"PP{layout.pp}"]
    if layout.vpp > 1:
        parts.append(f"VPP{layout.vpp}")
    if layout.cp > 1:
        parts.append(f"CP{layout.cp}")
    parts += [f"EP{layout.ep}", f"DP{layout.dp(count)}"]
    return " ".join(parts)
