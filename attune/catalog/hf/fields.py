"""The fields of one config: typed, spelt in any way, each default and each use noted."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attune.catalog.hf.refusal import UnmodelledError
from attune.catalog.hf.rules import ClassRules, common_rules
from attune.errors import AttuneError

_ABSENT = object()
_LARGEST_NUMBER = 1e300
_ESSENTIAL = ("layers", "hidden", "ffn", "heads", "vocabulary", "expert_count", "expert_top_k")
"""Sizes that every published config states; without them a file is not whole."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Defaulted:
    """A field that the config does not give."""

    field: str
    value: Any
    reason: str


@dataclass(kw_only=True)
class Fields:
    """The fields of a config, as its class reads them."""

    data: Mapping[str, Any]
    rules: ClassRules
    source: str
    whole: bool = True
    """Not nested in a multimodal config; such configs leave out what equals the class's default."""
    used: set[str] = field(default_factory=set)
    defaulted: list[Defaulted] = field(default_factory=list)

    def integer(self, meaning: str, *, least: int = 1) -> int:
        """A whole number of at least `least`; absent, the class's default.

        Raises:
            AttuneError: missing without default, null, another type, too small or too large.
        """
        value = self.optional_integer(meaning, least=least)
        if value is None:
            raise self.absent(meaning)
        return value

    def absent(self, meaning: str) -> AttuneError:
        """The error that a field is null or missing."""
        keys = self.keys(meaning)
        names = keys or [key for key in _spellings(meaning) if key in self.rules.defaults]
        got = "is null" if keys else "is missing"
        name = (names or list(_spellings(meaning)))[0]
        return self.wrong(name, f"{got}, but must be a whole number")

    def optional_integer(self, meaning: str, *, least: int = 1) -> int | None:
        """As `integer`, but None where the config says null, or nothing and no default is known."""
        key, value = self.value(meaning)
        return None if value is None else self.checked_integer(key, value, least)

    def checked_integer(self, key: str, value: Any, least: int = 1) -> int:
        """`value` of `key` as a whole number of at least `least`."""
        if isinstance(value, list) and value and key in self.rules.per_layer:
            value = self._same_everywhere(key, value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(key, f"must be a whole number, but got {reprlib.repr(value)}")
        if not least <= value < 2**31:
            raise self.wrong(key, f"must be {least} to 2^31 - 1, but got {reprlib.repr(value)}")
        return value

    def _same_everywhere(self, key: str, values: list[Any]) -> Any:
        self.listed(key, self.integer("layers"))
        if any(value != values[0] for value in values):
            missing = f"layers of differing `{key}`"
            raise UnmodelledError(self.source, f"class {self.rules.name}", missing)
        return values[0]

    def number(self, meaning: str, default: float) -> float:
        """A positive number; absent or null, the class's default, else `default`."""
        key, value = self.value(meaning)
        if value is None:
            if not self._is_defaulted(key):
                self._note(key, default, "usual value")
            return default
        return self.checked_number(key, value)

    def checked_number(self, key: str, value: Any) -> float:
        """`value` of `key` as a positive number."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(key, f"must be a number, but got {reprlib.repr(value)}")
        if not 0 < value < _LARGEST_NUMBER:  # false for NaN too
            raise self.wrong(key, f"must be positive and finite, but got {reprlib.repr(value)}")
        return float(value)

    def boolean(self, key: str, default: bool = False) -> bool:
        """True or false; absent or null, the class's default, else `default`."""
        _, value = self.value(key)
        if value is None:
            if not self._is_defaulted(key):
                self._note(key, default, "usual value")
            return default
        if not isinstance(value, bool):
            raise self.wrong(key, f"must be true or false, but got {reprlib.repr(value)}")
        return value

    def listed(self, key: str, length: int) -> list[Any] | None:
        """A list with one entry per layer; None where absent or null."""
        self.used.add(key)
        value = self.data.get(key)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.wrong(key, f"must be a list, but got {reprlib.repr(value)}")
        if len(value) != length:
            raise self.wrong(key, f"has {len(value)} entries, but the model has {length} layers")
        return value

    def value(self, meaning: str) -> tuple[str, Any]:
        """(key, value) of that meaning, the class's default noted where the config has none.

        Raises:
            AttuneError: two spellings of one meaning contradict each other.
        """
        keys = self.keys(meaning)
        given = [key for key in keys if self.data[key] is not None]
        for key in given[1:]:
            self._check_alike(given[0], key)
        if given:
            return given[0], self.data[given[0]]
        spellings = _spellings(meaning)
        if keys:  # null was written
            return keys[0], None
        known = () if self.whole and meaning in _ESSENTIAL else spellings
        for key in known:
            if key in self.rules.defaults:
                value = self.rules.defaults[key]
                self._note(key, value, f"default of class {self.rules.name}")
                return key, value
        return spellings[0], None

    def keys(self, meaning: str) -> list[str]:
        """Keys of the config with that meaning that the class reads; noted as used."""
        found = [
            key for key in _spellings(meaning) if key in self.data and key not in self.rules.ignored
        ]
        self.used.update(found)
        return found

    def get(self, key: str) -> Any:
        """The raw value of `key`, noted as used; the class's default where absent."""
        self.used.add(key)
        value = self.data.get(key, _ABSENT)
        if value is _ABSENT:
            value = self.rules.defaults.get(key)
            if key in self.rules.defaults:
                self._note(key, value, f"default of class {self.rules.name}")
        return value

    def derive(self, meaning: str, value: Any, reason: str) -> None:
        """Notes that the field of that meaning takes `value` from others."""
        keys = self.keys(meaning)
        self._note((keys or list(_spellings(meaning)))[0], value, reason)

    def wrong(self, key: str, words: str) -> AttuneError:
        """The error that `key` is wrong."""
        return AttuneError(f"{self.source}: field `{key}` {words}")

    def _check_alike(self, first: str, second: str) -> None:
        if self.data[first] != self.data[second]:
            raise AttuneError(
                f"{self.source}: fields `{first}` ({reprlib.repr(self.data[first])}) and "
                f"`{second}` ({reprlib.repr(self.data[second])}) contradict each other; keep the "
                "one that is right"
            )

    def _is_defaulted(self, key: str) -> bool:
        return any(item.field == key for item in self.defaulted)

    def _note(self, key: str, value: Any, reason: str) -> None:
        if not self._is_defaulted(key):
            self.defaulted.append(Defaulted(field=key, value=value, reason=reason))


def _spellings(meaning: str) -> tuple[str, ...]:
    return common_rules().spellings.get(meaning, (meaning,))
