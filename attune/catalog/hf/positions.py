"""Rotary positions and sliding windows, as a config writes them down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attune.catalog.hf.fields import Fields
from attune.catalog.hf.refusal import UnmodelledError, printable
from attune.catalog.hf.rules import common_rules

_LONGEST_PERIOD = 64


def rope(fields: Fields, head_dim: int) -> dict[str, Any]:
    """Fields `rope_base`, `rope_share` and `rope_scaling` of a model."""
    parameters = _parameters(fields)
    for key in ("rope_theta", "partial_rotary_factor"):
        given = fields.data.get(key)
        if key in parameters and given is not None and given != parameters[key]:
            raise fields.wrong(
                key, f"is {given!r}, but rope_parameters.{key} is {parameters[key]!r}; keep one"
            )
    result: dict[str, Any] = {"rope_share": _share(fields, parameters, head_dim)}
    if "rope_theta" in parameters:
        fields.keys("rope_base")
        base = fields.checked_number("rope_parameters.rope_theta", parameters["rope_theta"])
        result["rope_base"] = base
    else:
        result["rope_base"] = fields.number("rope_base", 10000.0) * _ratio(fields)
    scaling = _scaling(fields, parameters)
    return result | ({"rope_scaling": scaling} if scaling else {})


def _ratio(fields: Fields) -> float:
    """Factor on the base of the rotation, in the classes that have one."""
    return fields.number("rope_ratio", 1.0) if "rope_ratio" in fields.rules.defaults else 1.0


def _parameters(fields: Fields) -> dict[str, Any]:
    """`rope_parameters` (of the full layers where they differ), else `rope_scaling`, else none."""
    merged: dict[str, Any] = {}
    for key in ("rope_scaling", "rope_parameters"):
        fields.used.add(key)
        value = fields.data.get(key)
        if value is None:
            continue
        if not isinstance(value, dict):
            raise fields.wrong(key, f"must be an object or null, but got {value!r:.40}")
        nested = value.get("full_attention")
        merged |= nested if isinstance(nested, dict) else value
    return merged


def _share(fields: Fields, parameters: dict[str, Any], head_dim: int) -> float:
    if "rotary_dim" in fields.data and not fields.rules.latent:
        fields.keys("rope_share")  # the same, written twice
        return fields.integer("rotary_dim") / head_dim
    if "partial_rotary_factor" in parameters:
        fields.keys("rope_share")
        share = parameters["partial_rotary_factor"]
    else:
        _, share = fields.value("rope_share")
    if share is None:
        return 1.0
    number = fields.checked_number("partial_rotary_factor", share)
    if number > 1:
        raise fields.wrong("partial_rotary_factor", f"must be at most 1, but got {share!r}")
    return number


def _scaling(fields: Fields, parameters: dict[str, Any]) -> dict[str, Any] | None:
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    kinds = common_rules().rope_kinds
    if not isinstance(kind, str) or kind not in kinds:
        missing = f"rotary positions of type `{printable(kind)}`"
        raise UnmodelledError(fields.source, f"class {fields.rules.name}", missing)
    if kinds[kind] is None:
        return None
    names = ("mscale", "mscale_all_dim", "beta_fast", "beta_slow")
    scaling: dict[str, Any] = {"kind": kinds[kind]}
    if parameters.get("factor") is not None:
        scaling["factor"] = fields.checked_number("rope_scaling.factor", parameters["factor"])
    scaling |= {name: parameters[name] for name in names if parameters.get(name) is not None}
    key = "original_max_position_embeddings"
    if parameters.get(key) is not None:
        scaling["original_positions"] = fields.checked_integer(
            f"rope_scaling.{key}", parameters[key]
        )
    return scaling


def windows(fields: Fields, layers: int) -> dict[str, Any]:
    """Fields `window`, `full_attention_every` and `no_rope_every` of a model."""
    size, slides = _window(fields, layers)
    result: dict[str, Any] = {}
    if size is not None and any(slides):
        result["window"] = size
        result["full_attention_every"] = _period(fields, [not x for x in slides], "layer_types")
    no_rope = _without_rope(fields, layers, slides if size is not None else [])
    if any(no_rope):
        result["no_rope_every"] = _period(fields, no_rope, "no_rope_layers")
    return result


def _window(fields: Fields, layers: int) -> tuple[int | None, list[bool]]:
    listed = fields.listed("layer_types", layers)
    switched = "use_sliding_window" in {*fields.data, *fields.rules.defaults}
    switched_off = switched and not fields.boolean("use_sliding_window")
    if listed is not None:
        slides = [_slides(fields, kind) for kind in listed]
        needed = any(slides)
    else:
        needed = fields.rules.window != "none" and not switched_off
        slides = []
    if not needed:
        return None, []
    size = fields.optional_integer("window")
    if listed is not None and size is None:
        raise fields.wrong("sliding_window", "is missing, but layer_types has sliding layers")
    if listed is None and size is not None:
        slides = _class_pattern(fields, layers)
    return size, slides


def _slides(fields: Fields, kind: Any) -> bool:
    known = ("full_attention", "sliding_attention", "attention", "indexed_attention")
    if kind not in (*known, *(("deepseek_sparse_attention",) if fields.rules.indexer else ())):
        missing = f"layers of type `{printable(kind)}` (`layer_types`)"
        raise UnmodelledError(fields.source, f"class {fields.rules.name}", missing)
    return bool(kind == "sliding_attention")


def _class_pattern(fields: Fields, layers: int) -> list[bool]:
    """Which layers slide where no `layer_types` says it."""
    if fields.rules.window == "upper":
        start = fields.integer("max_window_layers", least=0)
        return [layer >= start for layer in range(layers)]
    if fields.rules.window == "pattern":
        every = _pattern_length(fields)
        return [layer % every > 0 for layer in range(1, layers + 1)]
    return [True] * layers


def _pattern_length(fields: Fields) -> int:
    """Layers of one round; EXAONE writes it as `LLLG`."""
    key, value = fields.value("window_every")
    if not isinstance(value, str):
        return fields.integer("window_every")
    if set(value[:-1]) != {"L"} or value[-1] != "G":
        raise fields.wrong(key, f"must be a number or like `LLLG`, but got {value!r:.40}")
    return len(value)


def _without_rope(fields: Fields, layers: int, slides: Sequence[bool]) -> list[bool]:
    if fields.rules.no_rope == "full_attention":
        return [not x for x in slides]
    if fields.rules.no_rope == "none":
        return []
    listed = fields.listed("no_rope_layers", layers)
    if listed:  # 1 stands for a layer that has rotary positions
        if not set(map(repr, listed)) <= {"0", "1"}:
            raise fields.wrong("no_rope_layers", "must hold 0 or 1 for each layer")
        fields.used.add("no_rope_layer_interval")
        return [not rotated for rotated in listed]
    every = fields.integer("no_rope_layer_interval")
    return [layer % every == 0 for layer in range(1, layers + 1)]


def _period(fields: Fields, marked: Sequence[bool], key: str) -> int:
    """n where every n-th layer is marked and no other; 0 where none is."""
    if not any(marked):
        return 0
    for every in range(1, _LONGEST_PERIOD):
        if all((layer % every == 0) == mark for layer, mark in enumerate(marked, start=1)):
            return every
    missing = f"an irregular order of layers (`{key}`)"
    raise UnmodelledError(fields.source, f"class {fields.rules.name}", missing)
