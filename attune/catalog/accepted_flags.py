"""The flags that each version of a framework accepts: `frameworks/flags/`, one flag a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from attune.catalog.names import nearest

_FOLDER = Path(__file__).resolve().parent / "frameworks" / "flags"
Version = tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptedFlag:
    """One flag of an argument parser."""

    name: str
    takes: str
    """Values that follow it: a number, or `*`, `+`, `?` as argparse has them."""
    since: Version | None = None
    """First version that has it; None for all before, too."""
    before: Version | None = None
    """First version that no longer has it."""
    choices: frozenset[str] = frozenset()
    """Values allowed; empty for any."""

    def holds(self, version: Version) -> bool:
        """Whether that version has the flag."""
        return (self.since is None or version >= self.since) and (
            self.before is None or version < self.before
        )

    def suits(self, values: Sequence[str]) -> bool:
        """Whether these values may follow the flag."""
        if self.takes.isdecimal():
            right = len(values) == int(self.takes)
        else:
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[self.takes]
            right = len(values) >= least and (most is None or len(values) <= most)
        return right and (not self.choices or set(values) <= self.choices)


def accepted_flags(framework: str, version: Version) -> dict[str, AcceptedFlag]:
    """The flags of that version by name; empty for a framework whose flags are not known."""
    return {flag.name: flag for flag in _read(framework) if flag.holds(version)}


def find_wrong_flag(framework: str, version: Version, words: Sequence[str]) -> str | None:
    """What is wrong with the first flag of `words` that this version would not take.

    A word that does not begin with `--` is a value of the flag before it. None where all are
    accepted, or where the framework's flags are not known.
    """
    known = accepted_flags(framework, version)
    if not known:
        return None
    for name, values in split_flags(words):
        flag = known.get(name)
        if flag is None:
            near = nearest(name, list(known))
            hint = f"; did you mean `{near}`?" if near else ""
            return f"{framework} {_text(version)} has no flag `{name}`{hint}"
        if not flag.suits(values):
            allowed = f" of {', '.join(sorted(flag.choices))}" if flag.choices else ""
            return f"`{name}` takes {flag.takes}{allowed}, but got `{' '.join(values)}`"
    return None


def split_flags(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Each flag of a command line with its values, in order; words before the first are left."""
    found: list[tuple[str, list[str]]] = []
    for word in words:
        if word.startswith("--"):
            name, sign, value = word.partition("=")
            found.append((name, [value] if sign else []))
        elif found:
            found[-1][1].append(word)
    return found


def _text(version: Version) -> str:
    return ".".join(map(str, version))


@lru_cache
def _read(framework: str) -> tuple[AcceptedFlag, ...]:
    path = _FOLDER / f"{framework}.txt"
    if not path.exists():
        return ()
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(_flag(line) for line in lines if line and not line.startswith("#"))


def _flag(line: str) -> AcceptedFlag:
    words = line.split(" ")
    name, takes, span, choices = (*words, *("-", "")[len(words) - 2 :])
    since, _, before = span.partition("-")
    return AcceptedFlag(
        name=name,
        takes=takes,
        since=_version(since),
        before=_version(before),
        choices=frozenset(choices.split(",")) if choices else frozenset(),
    )


def _version(text: str) -> Version | None:
    if not text:
        return None
    major, minor = text.split(".")
    return int(major), int(minor)
