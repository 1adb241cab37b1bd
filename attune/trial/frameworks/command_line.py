"""A command line as flags by name, and flags as the words of a command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from attune.catalog.accepted_flags import find_wrong_flag
from attune.catalog.framework import FrameworkFacts
from attune.errors import AttuneError
from attune.trial.job import Job

Flags = dict[str, Any]
"""Flag and value: True for one without a value, a tuple for several, None or False for none."""


def combine(facts: FrameworkFacts, *flags: Mapping[str, Any]) -> Flags:
    """Flags by name, later ones instead of earlier ones, without those that go without saying."""
    combined: Flags = {}
    for more in flags:
        combined |= more
    return {
        name: value
        for name, value in combined.items()
        if value is not None and value is not False and not _implied(facts, name, value)
    }


def _implied(facts: FrameworkFacts, name: str, value: Any) -> bool:
    if name not in facts.implied:
        return False
    implied: Any = facts.implied[name]
    return bool(value in implied if isinstance(implied, tuple) else value == implied)


def words(flags: Mapping[str, Any]) -> list[str]:
    """`{"--lr": 1e-5}` as `["--lr", "1e-5"]`."""
    found: list[str] = []
    for name, value in flags.items():
        found.append(name)
        if isinstance(value, tuple):
            found += map(text, value)
        elif value is not True:
            found.append(text(value))
    return found


def text(value: Any) -> str:
    """A value as a person would type it: the shorter of 0.001 and 1e-3."""
    if not isinstance(value, float):
        return str(value)
    if value >= 1000 and value.is_integer():
        return str(int(value))  # such as the rotary base, which Megatron takes whole
    plain = repr(value)
    exact = re.sub(r"e([+-])0", r"e\1", f"{value:e}")
    mantissa, _, exponent = exact.partition("e")
    short = f"{mantissa.rstrip('0').rstrip('.')}e{exponent.replace('+', '')}"
    plain = re.sub(r"e([+-])0", r"e\1", plain)
    return short if float(short) == value and len(short) < len(plain) else plain


def check_flags(job: Job, version: tuple[int, int], flags: Mapping[str, Any]) -> None:
    """Refuse a flag that this version of the framework does not take.

    slime ignores flags that it does not know, so a typing error would train something else.

    Raises:
        AttuneError: the flag, and the nearest one that there is.
    """
    wrong = find_wrong_flag(job.framework, version, words(flags))
    if wrong:
        own = " (among the `flags` of your setup)" if set(flags) & set(job.setup.flags) else ""
        raise AttuneError(f"{wrong}{own}")


def version_of(job: Job, facts: FrameworkFacts) -> tuple[int, int]:
    """Version of the framework, as its list of accepted flags counts it: major and minor.

    Raises:
        AttuneError: a version that is not known.
    """
    facts.core_of(job.setup.version)
    major, minor = (job.setup.version or _usual(facts)).split(".")[:2]
    return int(major), int(minor)


def _usual(facts: FrameworkFacts) -> str:
    """The newest version on the megatron-core that is taken for granted."""
    return next(v for v, core in reversed(facts.versions.items()) if core == facts.megatron_core)


def quoted(value: str) -> str:
    """A word for a shell script; a variable such as `$HF_CKPT` stays one, in quotes."""
    variable = re.fullmatch(r"\$(\w+|\{\w+(\[@\])?\})", value)
    return f'"{value}"' if variable else shlex.quote(value)
