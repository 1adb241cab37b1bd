"""Reads one log line as a failure: its class, and what an out-of-memory line says in numbers."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from attune.trial.failures import HOST_ALLOCATOR, TABLE

_READ = 2000
"""Characters of a line that are judged: torch's longest message has under 1000, and patterns take
time that grows with the square of what a hostile line repeats."""
_EVIDENCE = 400
"""Longest evidence kept, characters."""
_FRAGMENTED = 0.1
"""Share of the card reserved but unallocated, with the request smaller than it, from which an
out of memory is called fragmentation: public reports of it lost 20 to 27 % of 80 GiB that way,
plain ones up to 4 %."""
_UNIT_GIB = {"bytes": 2.0**-30, "KiB": 2.0**-20, "MiB": 2.0**-10, "GiB": 1.0, "TiB": 2.0**10}
_SIZE = r"([\d.]+) ?(bytes|[KMGT]iB)"
_REQUESTED = re.compile(
    rf"(?i:tried to allocate|unable to allocate|allocating|calloc|malloc) {_SIZE}"
)
_REQUESTED_BYTES = re.compile(r"(?:calloc|malloc|size=|allocate )\D{0,3}(\d+)(?! ?[KMGT\d.])")
_CAPACITY = re.compile(rf"total capacity of {_SIZE}|{_SIZE} total capacity")
_UNALLOCATED = re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated")
_ALLOCATED = re.compile(rf"{_SIZE} already allocated")
_RESERVED = re.compile(rf"{_SIZE} reserved in total")


_RANK = re.compile(r"\[rank ?(\d{1,7})\]|\bon rank (\d{1,7})\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """What one line says about a failure."""

    log_class: str
    line: str
    """The line, shortened."""
    rank: int | None = None
    phase: str | None = None
    requested_gib: float | None = None
    """What the allocator was asked for."""
    on_host: bool = False
    """An allocator of the host failed: out of memory where the host is what trains."""
    time: float | None = None
    """When the line was written, seconds since 1970, where the log says it."""
    arrival: int = 0
    """Number of the look at the logs that found it."""
    place: int = 0
    """Number of its line in its log."""


def classify(line: str) -> Finding | None:
    """What `line` says about a failure or progress; None where no pattern knows it."""
    line = line[:_READ]
    log_class = next((name for name, pattern in TABLE if pattern.search(line)), None)
    if log_class is None:
        return None
    if log_class == "GPU_OOM" and _is_fragmented(line):
        log_class = "GPU_OOM_FRAGMENTATION"
    return Finding(
        log_class=log_class,
        line=" ".join(line.split())[:_EVIDENCE],
        rank=_rank(line),
        requested_gib=requested_gib(line) if "OOM" in log_class else None,
        on_host=log_class == "HOST_OOM" and bool(HOST_ALLOCATOR.search(line)),
    )


def _rank(line: str) -> int | None:
    """The rank that a line names, as NCCL's watchdog and Megatron's checks do."""
    match = _RANK.search(line)
    return int(match[1] or match[2]) if match else None


def requested_gib(line: str) -> float | None:
    """What the allocator was asked for, GiB; None where the line does not say."""
    size = _gib(_REQUESTED.search(line))
    if size is None and (match := _REQUESTED_BYTES.search(line)):
        size = float(match[1]) * _UNIT_GIB["bytes"]
    # A garbled line may hold more digits than any size has.
    return size if size is not None and math.isfinite(size) else None


def _is_fragmented(line: str) -> bool:
    capacity, requested = _gib(_CAPACITY.search(line)), requested_gib(line)
    unallocated = _gib(_UNALLOCATED.search(line))
    if unallocated is None:
        reserved, allocated = _gib(_RESERVED.search(line)), _gib(_ALLOCATED.search(line))
        unallocated = (reserved or 0.0) - (allocated or 0.0)
    if capacity is None or requested is None:
        return False
    return unallocated > requested and unallocated >= _FRAGMENTED * capacity


def _gib(match: re.Match[str] | None) -> float | None:
    if match is None:
        return None
    number, unit = (group for group in match.groups() if group)
    try:
        return float(number) * _UNIT_GIB[unit]
    except ValueError:
        return None
