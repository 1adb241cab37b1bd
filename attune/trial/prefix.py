"""What launchers write before a line: who wrote it, when, and the line itself."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import NamedTuple

_ACTOR = r"[A-Za-z_][\w.:<>]*(?:\([^)]*\))?"
_RAY = rf"\((?:{_ACTOR} )?pid=(?P<pid>\d+)(?:, ip=[^)\s]+)?\)"
_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"{_RAY}\s?",  # Ray
        rf"\({_ACTOR}, ip=[^)\s]+\) ",  # Ray's own programs
        r"\[(?:rank(?P<rank>\d+)|default(?P<local>\d+))\]:\s?",  # torch, torchrun --tee
        r"\[\d+,(?P<mpi>\d+)\](?:<\w+>)?:\s?",  # mpirun --tag-output
        r"\s{0,4}(?P<task>\d{1,5}): ",  # srun --label
        r"\[(?:pod/)?[\w.-]+/[\w./-]+\] ",  # kubectl logs --prefix
        r"[a-z][a-z0-9]*(?:[-.][a-z0-9]+)*\d[a-z0-9.-]*: ",  # pdsh, a host's name
        r"\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
        r"(?: [a-z]\w*_rank(?P<process>\d+)| [a-z]\w*)?\]? ?(?:[-|] )?",  # logging, kubectl, miles
        r"\d\d:\d\d:\d\d(?:[.,]\d{1,6})? ",
        r"\[?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\]?(?::[\w.]+:| )",  # logging
        r"[\w./]+\.py:\d+ - ",  # slime, miles
    )
)
_REPEATED = re.compile(r"\s*\[repeated (\d+)x across cluster\].*$")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?")
_LONGEST = 160
"""Characters in which prefixes are looked for."""


class Prefixed(NamedTuple):
    """A line without what launchers wrote before and after it."""

    text: str
    rank: int | None
    """The rank that wrote it, where the prefixes say."""
    source: str
    """Who wrote it, to tell interleaved writers apart; empty where nothing says."""


def strip(line: str) -> Prefixed:
    """The line itself, behind the prefixes of Ray, torchrun, Slurm, MPI, Kubernetes and logging."""
    if not line or (line[0] not in "([" and not line[:_LONGEST].lstrip()[:1].isalnum()):
        return Prefixed(line, None, "")
    rank, task, source, position = None, None, "", 0
    while match := _next(line, position):
        found = match.groupdict()
        given = next((found[n] for n in ("rank", "mpi", "process") if found.get(n)), None)
        rank = rank if given is None else int(given)
        if found.get("task"):
            task = int(found["task"])
        source += found.get("pid") or found.get("local") or found.get("task") or ""
        position = match.end()
    text = _REPEATED.sub("", line[position:]) if "repeated" in line else line[position:]
    known = task if rank is None else rank
    return Prefixed(text, known, source or ("" if known is None else str(known)))


def _next(line: str, position: int) -> re.Match[str] | None:
    if position > _LONGEST:
        return None
    found = (pattern.match(line, position) for pattern in _PATTERNS)
    return next((match for match in found if match and match.end() > position), None)


def last_time_of(text: str) -> float | None:
    """The last time that stands in a text of several lines."""
    found = _TIME.findall(text)
    return (
        time_of(" ".join(found[-1][:2]) + (f".{found[-1][2]}" * bool(found[-1][2])))
        if found
        else None
    )


def time_of(line: str) -> float | None:
    """When a line was written, seconds since 1970, where its beginning says so."""
    match = _TIME.search(line[:_LONGEST])
    if match is None:
        return None
    try:
        moment = datetime.fromisoformat(f"{match[1]} {match[2]}").replace(tzinfo=UTC)
    except ValueError:
        return None
    return moment.timestamp() + float(f"0.{match[3] or 0}")
