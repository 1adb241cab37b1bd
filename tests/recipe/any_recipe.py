"""Recipes for property tests: every field of the schema, given or not, and fields it has not."""

from __future__ import annotations

import types
from datetime import date
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, MaxLen, MinLen
from hypothesis import strategies as st
from pydantic import BaseModel

from attune.recipe.schema import Recipe

_AWKWARD = (
    *("", " ", "no", "null", "~", "1e3", "0x1f", "2.10", "2026-11-30", "12:30:00", "- item"),
    *("key: value", "# not a comment", "'quoted'", '"quoted"', "a\n", "a\nb", "a\n\n  b\n", "\n"),
    *(" leading\nblock\n", "\ttab", "trailing ", "x" * 300, "word " * 60, "a\n \n", "modèle 模型"),
    *("{{ x }}", "&anchor", "*alias", "!tag", "%TAG", "@at", "`tick`", "| pipe", "> fold"),
)
_TEXT = st.sampled_from(_AWKWARD) | st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"), include_characters="\n\t"),
    max_size=40,
)
_NUMBERS = st.integers(-(2**40), 2**40) | st.floats(-1e12, 1e12)
_SCALARS = st.none() | st.booleans() | _NUMBERS | _TEXT
_ANY = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)
_UNKNOWN = st.dictionaries(
    st.sampled_from(("colour", "x-note", "2nd", "ünknown")), _ANY, max_size=2
)


def recipes() -> st.SearchStrategy[dict[str, Any]]:
    """Plain data that the schema accepts."""
    return _part(Recipe)


def _part(kind: type[BaseModel]) -> st.SearchStrategy[dict[str, Any]]:
    hints = get_type_hints(kind, include_extras=True)
    fields = {name: _value(hints[name], info.metadata) for name, info in kind.model_fields.items()}
    needed = {n: v for n, v in fields.items() if kind.model_fields[n].is_required()}
    rest = {n: v for n, v in fields.items() if n not in needed}
    known = st.fixed_dictionaries(needed, optional=rest)
    return st.builds(lambda own, more: {**own, **more}, known, _UNKNOWN)


def _value(hint: Any, metadata: Any = ()) -> st.SearchStrategy[Any]:
    origin = get_origin(hint)
    if hasattr(hint, "__metadata__"):
        inner = [m for part in hint.__metadata__ for m in getattr(part, "metadata", [part])]
        return _value(get_args(hint)[0], [*metadata, *inner])
    if origin is Literal:
        return st.sampled_from(get_args(hint))
    if origin in (Union, types.UnionType):
        return st.one_of(*(_value(part, metadata) for part in get_args(hint)))
    if origin is list:
        least = next((m.min_length for m in metadata if isinstance(m, MinLen)), 0)
        most = next((m.max_length for m in metadata if isinstance(m, MaxLen)), 2)
        return st.lists(_value(get_args(hint)[0]), min_size=least, max_size=most)
    if origin is dict:
        return st.dictionaries(_TEXT, _value(get_args(hint)[1]), max_size=3)
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return _part(hint)
    return _scalar(hint, metadata)


def _scalar(hint: Any, metadata: Any) -> st.SearchStrategy[Any]:
    low = max((_low(m) for m in metadata), default=None, key=lambda x: (x is not None, x or 0))
    high = next((m.le for m in metadata if isinstance(m, Le)), None)
    if hint is int:
        return st.integers(-(2**40) if low is None else int(low), high or 2**40)
    if hint is float:
        return st.floats(-1e9 if low is None else low, 1e9 if high is None else high)
    plain = {str: _TEXT, bool: st.booleans(), date: st.dates(), type(None): st.none(), Any: _ANY}
    return plain[hint]


def _low(bound: Any) -> float | None:
    if isinstance(bound, Ge):
        return float(bound.ge)
    return (
        float(bound.gt) + 1
        if isinstance(bound, Gt) and bound.gt >= 1
        else (1.0 if isinstance(bound, Gt) else None)
    )
