"""Reads the logs of all ranks while they grow, in constant memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from attune.trial.failures import CLASSES
from attune.trial.findings import Finding, classify
from attune.trial.prefix import last_time_of, strip, time_of
from attune.trial.result import HeldMemory, LayerPass, RankMemory, Step
from attune.trial.sieve import KNOWN, Sieve
from attune.trial.tracebacks import Traceback

_CHUNK = 1 << 18
_LONGEST = 1 << 14
"""Bytes kept of one line; the rest of a longer one is dropped."""
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_RANK_FILE = re.compile(r"rank-(\d+)\.log")
_BEFORE = 1024
"""Bytes before a line in which its time is looked for, where it has none itself."""
_SOURCES = 4096
"""Writers of one log that are told apart; further ones are taken for one."""


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
        self.place = 0
        self.tracebacks: dict[str, Traceback] = {}
        self.findings: dict[str, Finding] = {}
        self._position = 0
        self._rest = b""

    def lines(self, sieve: Sieve | None) -> Iterator[str]:
        """The whole lines written since the last look that can say anything; all without a sieve.

        `place` and `time` are those of the line that is given.
        """
        with self.path.open("rb") as file:
            file.seek(self._position)
            while chunk := file.read(_CHUNK):
                begin = self._position - len(self._rest)
                self._position += len(chunk)
                block = (self._rest + chunk).replace(b"\r", b"\n")
                cut = block.rfind(b"\n") + 1
                block, self._rest = block[:cut], block[cut:][:_LONGEST]
                for start, line in sieve.lines(block) if sieve else _split(block):
                    self.place = begin + start
                    before = block[max(start - _BEFORE, 0) : start].decode("latin-1")
                    text = _clean(line)
                    self.time = time_of(text) or last_time_of(before) or self.time
                    yield text

    def last(self) -> str:
        """What follows the last line break: a line that was cut short, or empty."""
        rest, self._rest = self._rest, b""
        return _clean(rest)


def _split(block: bytes) -> Iterator[tuple[int, bytes]]:
    place = 0
    for line in block.split(b"\n")[:-1]:
        if line:
            yield place, line
        place += len(line) + 1


def _clean(line: bytes) -> str:
    return _ANSI.sub("", line[:_LONGEST].decode("utf-8", errors="replace")).rstrip()


class RunLog:
    """All that the logs of one run have said so far."""

    def __init__(self, reader: LogReader) -> None:
        self.steps: list[Step] = []
        self.ranks: dict[int, RankMemory] = {}
        self.held: list[HeldMemory] = []
        self.layers: list[LayerPass] = []
        self._reader = reader
        # A reader by expressions of the user's own wants to see every line.
        self._sieve = Sieve(KNOWN) if getattr(reader, "sieved", True) else None
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
            for line in tail.lines(self._sieve):
                yield from self._take(tail, line)

    def close(self) -> None:
        """Take the last lines that were cut short: they may tell an error, but no figures."""
        for tail in self._tails.values():
            line = strip(tail.last())
            self._note(tail, classify(line.text), line.rank, self._traceback(tail, line.source))

    def _take(self, tail: _Tail, line: str) -> Iterator[Step]:
        text, rank, source = strip(line)
        traceback = self._traceback(tail, source)
        if traceback.read(text):
            return
        reading = self._read(text)
        if isinstance(reading, Step):
            if not self.steps or reading.step > self.steps[-1].step:
                self.steps.append(reading)
                yield reading
        elif isinstance(reading, RankMemory):
            self._remember(reading)
        elif isinstance(reading, HeldMemory):
            self.held.append(reading)
        elif isinstance(reading, LayerPass):
            self.layers.append(reading)
        elif isinstance(reading, Phase):
            tail.phase = str(reading)
        # Two ranks may have written into one line: an error can follow what the reader knew.
        found = reading if isinstance(reading, Finding) else classify(text)
        self._note(tail, found, rank, traceback)

    def _traceback(self, tail: _Tail, source: str) -> Traceback:
        key = source if source in tail.tracebacks or len(tail.tracebacks) < _SOURCES else ""
        return tail.tracebacks.setdefault(key, Traceback())

    def _read(self, line: str) -> Reading | None:
        """What the line says; a garbled one, whose numbers are none, says nothing."""
        try:
            return self._reader.read(line)
        except ValueError:
            return None

    def _remember(self, memory: RankMemory) -> None:
        """The largest peaks that a rank printed: the first steps have not met all states yet."""
        known = self.ranks.get(memory.rank)
        if known is not None:
            memory = memory.model_copy(
                update={
                    name: max(getattr(known, name), getattr(memory, name))
                    for name in ("allocated_gib", "reserved_gib", "host_gib")
                }
            )
        self.ranks[memory.rank] = memory

    def _note(
        self, tail: _Tail, found: Finding | None, rank: int | None, traceback: Traceback
    ) -> None:
        if found is None or CLASSES[found.log_class].outcome is None:
            return
        told = found.phase or traceback.phase
        known = tail.findings.get(found.log_class)
        if known is None:
            known = self._placed(tail, replace(found, phase=told or tail.phase), rank)
        # A traceback and the trainer's own line tell of one failure; together they say most.
        size = known.requested_gib
        tail.findings[found.log_class] = replace(
            known,
            phase=told or known.phase,
            requested_gib=found.requested_gib if size is None else size,
        )

    def _placed(self, tail: _Tail, found: Finding, rank: int | None) -> Finding:
        known = next((r for r in (found.rank, tail.rank, rank) if r is not None), None)
        return replace(found, rank=known, time=tail.time, arrival=self._looks, place=tail.place)
