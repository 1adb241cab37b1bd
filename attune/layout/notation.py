"""Layouts as people write them: `tp=4 pp=16 ep=8 first=5 last=3`, and back."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from attune.catalog import nearest
from attune.errors import AttuneError
from attune.layout.layout import Layout
from attune.layout.pipeline_layout import implied_chunks
from attune.layout.table import DISPATCHERS, GRANULARITIES, METHODS, MODULES
from attune.layout.unmodelled import refuse_unmodelled

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
_LONG = {"rows_per_microbatch": "rows", "optimizer_offload": "offload", "sequence_parallel": "sp"}
_TYPES = {field.name: str(field.type) for field in fields(Layout)}
_DEFAULTS = {name: getattr(Layout(), name) for name in _TYPES}
_LARGEST = 4096
"""Bound on whole numbers: twice the layers of the largest model, so that tables stay small."""
_WORDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "recompute": GRANULARITIES,
        "recompute_method": tuple(method for method in METHODS if method),
        "dispatcher": DISPATCHERS,
    }
)


def parse_layout(text: str) -> Layout:
    """The layout that `text` (`name=value` pairs) describes.

    What is left out follows the framework's habit: sequence parallel is on with TP over 1 (MoE
    training requires it), VPP follows from `pipeline_layout`, full recompute is uniform with one
    layer, an offloaded optimizer is precision-aware. `recompute` takes none, full, selective, or
    modules (`recompute=core_attn,moe`); `none` leaves an optional field out. Values are taken as
    they are, legal or not.

    Raises:
        AttuneError: an unknown field or word, a value of the wrong type, a field given twice.
    """
    given: dict[str, str] = {}
    for word in text.split():
        name, sign, value = word.partition("=")
        if not sign or not value:
            raise AttuneError(f"`{word}` is not of the form name=value, as in `tp=4 pp=16`")
        key = _key(name)
        if key in given:
            raise AttuneError(f"`{key}` is given twice in `{text}`; give it once")
        given[key] = value
    if given.get("recompute", "none") not in GRANULARITIES:
        given |= _selected(given)
    values = {key: _value(key, value) for key, value in given.items()}
    return Layout(**(_implied(values) | values))


def _selected(given: Mapping[str, str]) -> dict[str, str]:
    """`recompute=core_attn,moe` in full: selective, and which modules."""
    for module in given["recompute"].split(","):
        _word("recompute", module, (*GRANULARITIES, *MODULES))
    if "recompute_modules" in given:
        raise AttuneError("`recompute` and `recompute_modules` both name modules; use one")
    return {"recompute": "selective", "recompute_modules": given["recompute"]}


def _key(name: str) -> str:
    key = _SHORT.get(name, name)
    if key not in _TYPES:
        refuse_unmodelled([name])
        near = nearest(name, [*_TYPES, *_SHORT])
        hint = f"; did you mean `{near}`?" if near else ""
        raise AttuneError(f"a layout has no field `{name}`{hint}")
    return key


def _implied(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that follow from `values` where they are not given themselves."""
    full = values.get("recompute") == "full"
    pipeline_layout = values.get("pipeline_layout")
    pp = values.get("pp", 1)
    return {
        "sequence_parallel": values.get("tp", 1) > 1,
        "vpp": implied_chunks(pipeline_layout, pp) if pipeline_layout else 1,
        "recompute_method": "uniform" if full else None,
        "recompute_layers": 1 if full else None,
        "precision_aware_optimizer": values.get("optimizer_offload", 0.0) > 0,
    }


def _value(key: str, text: str) -> Any:
    kind = _TYPES[key]
    if text == "none" and kind.endswith("None"):
        return None
    if kind == "bool":
        return _switch(key, text)
    if kind.startswith("int"):
        return _whole(key, text)
    if kind == "float":
        return _number(key, text)
    if key == "recompute_modules":
        return tuple(sorted({_word(key, module, MODULES) for module in text.split(",")}))
    return _word(key, text, _WORDS[key]) if key in _WORDS else text


def _switch(key: str, text: str) -> bool:
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off"):
        return False
    raise AttuneError(f"`{key}` is on or off, but got `{text}`")


def _whole(key: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", text) or not 1 <= int(text) <= _LARGEST:
        raise AttuneError(f"`{key}` is a whole number from 1 to {_LARGEST}, but got `{text}`")
    return int(text)


def _number(key: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1:
        raise AttuneError(f"`{key}` is a share from 0 to 1, but got `{text}`")
    return number


def _word(key: str, text: str, words: tuple[str, ...]) -> str:
    if text in words:
        return text
    near = nearest(text, list(words))
    hint = f"; did you mean `{near}`?" if near else ""
    raise AttuneError(f"`{key}` takes {', '.join(words)}, but got `{text}`{hint}")


def write_layout(layout: Layout) -> str:
    """One canonical line for a layout; `parse_layout` reads it back to an equal one."""
    values = {name: getattr(layout, name) for name in _TYPES}
    defaults = _DEFAULTS | _implied(values)
    return " ".join(
        f"{_LONG.get(name, name)}={_text(value)}"
        for name, value in values.items()
        if name in ("tp", "pp") or value != defaults[name]
    )


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return "none" if value is None else str(value)


def label(layout: Layout, count: int) -> str:
    """The label of a recipe page: `TP4 PP16 EP8 DP2`; CP and VPP where they are not 1."""
    parts = [f"TP{layout.tp}", f"PP{layout.pp}"]
    if layout.vpp > 1:
        parts.append(f"VPP{layout.vpp}")
    if layout.cp > 1:
        parts.append(f"CP{layout.cp}")
    parts += [f"EP{layout.ep}", f"DP{layout.dp(count)}"]
    return " ".join(parts)
