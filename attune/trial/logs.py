"""Reads the logs of all ranks while they grow, in constant memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from attune.trial.failures import CLASSES
from attune.trial.findings import Finding, classify
from attune.trial.result import HeldMemory, LayerPass, RankMemory, Step

_CHUNK = 1 << 18
_LONGEST = 1 << 14
"""Bytes kept of one line; the rest of a longer one is dropped."""
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_RANK_FILE = re.compile(r"rank-(\d+)\.log")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?")


class Phase(str):
    """A phase that a line announces: `build`, `forward`, ..."""

    __slots__ = ()


Reading = Step | RankMemory | HeldMemory | LayerPass | Finding | Phase


class LogReader(Protocol):
    """Reads the lines that are a framework's own."""

    def read(self, line: str) -> Reading | None:
        """What a line says; None for a line that is not the framework's own."""


class _Tail:
    """One log file, read from where the last look ended."""

    def __init__(self, path: Path) -> None:
        match = _RANK_FILE.fullmatch(path.name)
        self.path = path
        self.rank = int(match[1]) if match else None
        self.phase: str | None = None
        self.time: float | None = None
        self.findings: dict[str, Finding] = {}
        self._position = 0
        self._rest = b""

    def lines(self) -> Iterator[str]:
        """The whole lines written since the last look."""
        with self.path.open("rb") as file:
            file.seek(self._position)
            while chunk := file.read(_CHUNK):
                self._position += len(chunk)
                *whole, self._rest = (self._rest + chunk).replace(b"\r", b"\n").split(b"\n")
                yield from map(_clean, filter(None, whole))
                self._rest = self._rest[:_LONGEST]

    def last(self) -> str:
        """What follows the last line break: a line that was cut short, or empty."""
        rest, self._rest = self._rest, b""
        return _clean(rest)


def _clean(line: bytes) -> str:
    return _ANSI.sub("", line[:_LONGEST].decode("utf-8", errors="replace")).rstrip()


def _time(line: str) -> float | None:
    match = _TIME.search(line[:100])
    if match is None:
        return None
    try:
        moment = datetime.fromisoformat(f"{match[1]} {match[2]}").replace(tzinfo=UTC)
    except ValueError:
        return None
    return moment.timestamp() + float(f"0.{match[3] or 0}")


class RunLog:
    """All that the logs of one run have said so far."""

    def __init__(self, reader: LogReader) -> None:
        self.steps: list[Step] = []
        self.ranks: dict[int, RankMemory] = {}
        self.held: list[HeldMemory] = []
        self.layers: list[LayerPass] = []
        self._reader = reader
        self._tails: dict[Path, _Tail] = {}
        self._looks = 0

    @property
    def findings(self) -> list[Finding]:
        """The first line of each class in each log."""
        return [found for tail in self._tails.values() for found in tail.findings.values()]

    @property
    def done(self) -> int:
        """Steps that were logged; of a layer probe, kinds of layer."""
        return len(self.steps) + len(self.layers)

    def look(self, files: list[Path]) -> Iterator[Step]:
        """Read on in all logs; yields each step that is new."""
        self._looks += 1
        for path in files:
            tail = self._tails.setdefault(path, _Tail(path))
            for line in tail.lines():
                yield from self._take(tail, line)

    def close(self) -> None:
        """Take the last lines that were cut short: they may tell an error, but no figures."""
        for tail in self._tails.values():
            self._note(tail, classify(tail.last()))

    def _take(self, tail: _Tail, line: str) -> Iterator[Step]:
        tail.time = _time(line) or tail.time
        reading = self._read(line)
        if isinstance(reading, Step):
            if not self.steps or reading.step > self.steps[-1].step:
                self.steps.append(reading)
                yield reading
        elif isinstance(reading, RankMemory):
            self.ranks[reading.rank] = reading
        elif isinstance(reading, HeldMemory):
            self.held.append(reading)
        elif isinstance(reading, LayerPass):
            self.layers.append(reading)
        elif isinstance(reading, Phase):
            tail.phase = str(reading)
        else:
            self._note(tail, reading or classify(line))

    def _read(self, line: str) -> Reading | None:
        """What the line says; a garbled one, whose numbers are none, says nothing."""
        try:
            return self._reader.read(line)
        except ValueError:
            return None

    def _note(self, tail: _Tail, found: Finding | None) -> None:
        if found is None or CLASSES[found.log_class].outcome is None:
            return
        known = tail.findings.setdefault(found.log_class, self._placed(tail, found))
        # A traceback and the trainer's own line tell of one failure; together they say most.
        tail.findings[found.log_class] = replace(
            known,
            phase=known.phase if found.phase is None else found.phase,
            requested_gib=known.requested_gib or found.requested_gib,
        )

    def _placed(self, tail: _Tail, found: Finding) -> Finding:
        return replace(
            found,
            rank=tail.rank if found.rank is None else found.rank,
            phase=found.phase or tail.phase,
            time=tail.time,
            arrival=self._looks,
        )
