"""What every launcher offers: start a command on the nodes of a job, and control it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from attune.trial.frameworks.framework import Command
from attune.trial.job import Job
from attune.trial.result import Provenance


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """Where a started job stands."""

    running: bool
    exit_code: int | None = None
    """Code of the whole job once it ended; minus the signal where a signal ended it."""


class Handle(Protocol):
    """One started job."""

    @property
    def job_id(self) -> str:
        """Name of the job where it runs: a process id, a Slurm job number, ..."""

    @property
    def interval_s(self) -> float:
        """How long to wait between two polls; 0 where nothing has to be waited for."""

    def poll(self) -> State:
        """The present state; never blocks."""

    def cancel(self) -> None:
        """End the job and wait until no process of it is left; harmless when it has ended."""

    def log_files(self) -> list[Path]:
        """Logs written so far: `rank-N.log` of each rank that wrote one, `launcher.log`."""

    def elapsed_s(self) -> float:
        """Wall time since the start, on the clock that the job runs by."""


class Launcher(Protocol):
    """Runs a command on the nodes of a job."""

    @property
    def name(self) -> str: ...

    @property
    def provenance(self) -> Provenance:
        """What its numbers are: `measured` on hardware, `predicted` without."""

    def check(self, job: Job, modules: tuple[str, ...]) -> None:
        """See, before anything is written, that a job which needs these modules can start.

        Raises:
            AttuneError: it cannot; what is missing and how to get it.
        """

    def start(self, job: Job, command: Command, directory: Path) -> Handle:
        """Start the command with `directory` as working directory; its logs go to `logs/`.

        Raises:
            AttuneError: it could not be started.
        """
