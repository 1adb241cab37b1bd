"""Plays a job without hardware and without waiting, on the clock of the virtual cluster."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path

from attune.trial.frameworks.framework import Command
from attune.trial.job import Job
from attune.trial.launchers.launcher import State
from attune.trial.result import Provenance
from attune.trial.stand_in import Fault, Line, load_voice
from attune.trial.stand_in.program import lines_of

_ELASTIC = (
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: rank : {rank} "
    "(local_rank: {local}) exitcode : {code}"
)
_numbers = itertools.count(1)


class SimulatedHandle:
    """A played run; each poll plays on to its next line."""

    interval_s = 0.0

    def __init__(self, job: Job, lines: Iterator[Line], logs: Path) -> None:
        self.job_id = f"simulated-{next(_numbers)}"
        self._job = job
        self._lines = lines
        self._logs = logs
        self._files: set[Path] = set()
        self._elapsed_s = 0.0
        self._state = State(running=True)

    def poll(self) -> State:
        if self._state.running:
            self._play(next(self._lines))
        return self._state

    def _play(self, line: Line) -> None:
        if self._elapsed_s + line.after_s > self._job.limit_s:
            # Nothing more comes before the time limit, so the clock goes straight to it.
            self._elapsed_s = self._job.limit_s
            self._lines = itertools.repeat(line)
            return
        self._elapsed_s += line.after_s
        if line.text:
            self._log(f"rank-{line.rank}.log", line.text)
        if line.exit_code is not None:
            self._end(line, line.exit_code)

    def _end(self, line: Line, exit_code: int) -> None:
        """torchrun ends with 1 whatever the code of the rank that failed, and reports that."""
        if exit_code:
            local = line.rank % self._job.cluster.per_node
            self._log("launcher.log", _ELASTIC.format(rank=line.rank, local=local, code=exit_code))
        self._state = State(running=False, exit_code=1 if exit_code else 0)

    def _log(self, name: str, text: str) -> None:
        path = self._logs / name
        with path.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
        self._files.add(path)

    def cancel(self) -> None:
        if self._state.running:
            self._state = State(running=False, exit_code=-15)

    def log_files(self) -> list[Path]:
        return sorted(self._files)

    def elapsed_s(self) -> float:
        return self._elapsed_s


class SimulatedLauncher:
    """The stand-in in this process; every number it yields is a prediction."""

    name = "simulated"
    provenance: Provenance = "predicted"
    queue_limit_s = math.inf

    def __init__(self, fault: Fault | None = None) -> None:
        self._fault = fault

    def excluding(self, nodes: tuple[str, ...]) -> SimulatedLauncher:
        return self

    def check(self, job: Job, modules: tuple[str, ...]) -> None:
        """Needs no module; a framework that no stand-in plays is refused."""
        load_voice(job)

    def start(self, job: Job, command: Command, directory: Path) -> SimulatedHandle:
        logs = directory / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        return SimulatedHandle(job, lines_of(job, self._fault), logs)

    def attach(self, job: Job, directory: Path) -> None:
        """A played run ends with the process that plays it."""
