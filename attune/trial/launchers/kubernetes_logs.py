"""Logs of the pods of a job, brought here and sorted by rank."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attune.trial.launchers.kubernetes_api import TrainJobs

_RANK = re.compile(r"attune-rank (\d+)\|")
_OVERLAP_S = 15
"""Seconds of the log asked for again, since it comes late where the cluster is busy."""


@dataclass
class _Read:
    """How far a pod's log has been read."""

    at: float
    """When it was last asked for, on this machine's clock."""
    last: tuple[str, str] = ("", "")
    """Time of the last line."""
    lines: int = 0
    """Lines with exactly that time."""


class PodLogs:
    """The logs of one job's pods."""

    def __init__(self, jobs: TrainJobs, folder: Path) -> None:
        self._jobs = jobs
        self._folder = folder
        self._read: dict[str, _Read] = {}

    def files(self) -> list[Path]:
        """Logs that have come so far."""
        return sorted(self._folder.glob("*.log"))

    def fetch(self, pods: list[Any]) -> None:
        """Brings what the pods wrote since the last time."""
        if not self._read:
            self._forget()
        for node, pod in enumerate(pods):
            name, now = pod.metadata.name, time.monotonic()
            read = self._read.get(name)
            since_s = None if read is None else int(now - read.at) + _OVERLAP_S
            read = self._read.setdefault(name, _Read(at=now))
            lines = self._jobs.log(name, since_s)
            read.at = now
            self._write(node, _new(lines, read))

    def _forget(self) -> None:
        """What an attune before this one brought in part is brought again, whole."""
        for path in self.files():
            if path.name.startswith(("rank-", "node-")):
                path.unlink()

    def _write(self, node: int, lines: list[str]) -> None:
        by_file: dict[str, list[str]] = {}
        for line in lines:
            told = _RANK.match(line)
            name = f"rank-{told[1]}.log" if told else f"node-{node}.log"
            by_file.setdefault(name, []).append(line[told.end() :] if told else line)
        for name, texts in by_file.items():
            with (self._folder / name).open("a", encoding="utf-8") as file:
                file.write("".join(f"{text}\n" for text in texts))


def _new(lines: list[str], read: _Read) -> list[str]:
    """The lines that come after what was read, without their times."""
    known, fresh = (read.last, read.lines), []
    met = 0
    for line in lines:
        stamp, _, text = line.partition(" ")
        moment = _moment(stamp)
        met = met + 1 if moment == known[0] else met
        if moment < known[0] or (moment == known[0] and met <= known[1]):
            continue
        read.lines = read.lines + 1 if moment == read.last else 1
        read.last = moment
        fresh.append(text)
    return fresh


def _moment(stamp: str) -> tuple[str, str]:
    """A time that sorts: RFC 3339 leaves out zeros at the end of its fraction."""
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    return whole, fraction.ljust(9, "0")
