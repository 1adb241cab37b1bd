"""Says how a run that attune never started ended, from its logs alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from attune.errors import AttuneError
from attune.report.diagnosis import Diagnosis
from attune.trial.frameworks import FRAMEWORKS, load_framework
from attune.trial.logs import LogReader, Reading, RunLog
from attune.trial.outcome import decide

_LOGS = (".log", ".out", ".err", ".txt", ".stdout", ".stderr")
"""Ends of the names of logs: of attune, Slurm, torchrun and Ray."""


def diagnose(
    places: Sequence[Path],
    *,
    framework: str | None = None,
    steps: int | None = None,
    exit_code: int | None = None,
) -> Diagnosis:
    """The verdict on the logs of one run.

    Args:
        places: log files, and folders whose logs are all read.
        framework: whose log it is; None understands all that attune knows.
        steps: how many steps a whole run has; None asks for one at least.
        exit_code: of the whole job; None is not known.

    Raises:
        AttuneError: a place that does not exist, a folder without logs, no such framework.
    """
    files = [file for place in places for file in _files(place)]
    reader = load_framework(framework).reader() if framework else _AnyReader()
    log = RunLog(reader)
    deque(log.look(files), maxlen=0)
    log.close()
    verdict = decide(
        log,
        steps_asked=1 if steps is None else steps,
        exit_code=_exit_code(log, steps) if exit_code is None else exit_code,
    )
    return Diagnosis(
        outcome=verdict.outcome,
        log_class=verdict.log_class,
        rank=verdict.rank,
        phase=verdict.phase,
        step=log.steps[-1].step if log.steps else None,
        steps_asked=steps,
        requested_gib=verdict.requested_gib,
        evidence=verdict.evidence,
        advice=verdict.advice,
        files=len(files),
        megabytes=sum(file.stat().st_size for file in files) / 1e6,
    )


def _exit_code(log: RunLog, steps: int | None) -> int:
    """A failure that was logged ended the job, unless all steps ran."""
    whole = steps is not None and log.done >= steps
    return int(bool(log.findings) and not whole)


def _files(place: Path) -> list[Path]:
    if not place.exists():
        raise AttuneError(f"no log at {place}; give log files, or a folder of them")
    if place.is_file():
        return [place]
    found = sorted(path for path in place.rglob("*") if path.is_file() and _is_log(path))
    if not found:
        ends = ", ".join(_LOGS)
        raise AttuneError(f"no log in {place}: no file there ends in {ends}; name the files")
    return found


def _is_log(path: Path) -> bool:
    """`x.log`, `slurm-7.out`, and torchrun's `0/stderr.log`; `slurm-7.out.1` too."""
    return any(end in _LOGS for end in path.suffixes) or path.name in ("stdout", "stderr")


class _AnyReader:
    """Reads the lines of every framework that attune knows; the first that knows a line wins."""

    def __init__(self) -> None:
        self._readers: list[LogReader] = []
        for name in FRAMEWORKS:
            # One that reads by patterns of the user has none here.
            with suppress(AttuneError):
                self._readers.append(load_framework(name).reader())

    def read(self, line: str) -> Reading | None:
        for reader in self._readers:
            if (reading := reader.read(line)) is not None:
                return reading
        return None
