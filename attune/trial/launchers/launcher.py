"""What every launcher offers: start a command on the nodes of a job, control it, find it again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from attune.trial.frameworks.framework import Command
from attune.trial.job import Job
from attune.trial.result import Provenance

EndedBy = Literal["program", "limit", "scheduler"]


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """Where a started job stands."""

    running: bool
    """Whether it has not ended yet: it runs, or waits in a queue."""
    exit_code: int | None = None
    """Code of the whole job once it ended; minus the signal where a signal ended it."""
    queued: bool = False
    """Whether it still waits for its nodes."""
    reason: str = ""
    """The scheduler's own words: why the job waits, or why the scheduler ended it."""
    ended_by: EndedBy = "program"
    """`limit` where the scheduler's time limit ended it; `scheduler` where a lost node, a
    preemption or an order of somebody else did."""
    nodes: tuple[str, ...] = ()
    """Names of its nodes in the order of their ranks, once known."""


class Handle(Protocol):
    """One started job."""

    @property
    def job_id(self) -> str:
        """Name of the job where it runs: a process id, a Slurm job number, ..."""

    @property
    def interval_s(self) -> float:
        """How long to wait between two polls; 0 where nothing has to be waited for."""

    def poll(self) -> State:
        """The present state; never blocks for long.

        A scheduler that does not answer changes nothing: the state is then the last one known.
        """

    def cancel(self) -> None:
        """End the job and wait until no process of it is left; harmless when it has ended."""

    def log_files(self) -> list[Path]:
        """Logs written so far: `rank-N.log` of each rank, `node-N.log`, `launcher.log`."""

    def elapsed_s(self) -> float:
        """Wall time from the allocation of the nodes to their release, or to now.

        On the clock that the job runs by; 0 while it waits in a queue.
        """


class Launcher(Protocol):
    """Runs a command on the nodes of a job."""

    @property
    def name(self) -> str: ...

    @property
    def provenance(self) -> Provenance:
        """What its numbers are: `measured` on hardware, `predicted` without."""

    @property
    def queue_limit_s(self) -> float:
        """How long a job may wait for its nodes before it is given up."""

    def excluding(self, nodes: tuple[str, ...]) -> Launcher:
        """This launcher, with more nodes that get no run; itself where it cannot choose nodes."""

    def check(self, job: Job, modules: tuple[str, ...]) -> None:
        """See, before anything is written, that a job which needs these modules can start.

        Raises:
            AttuneError: it cannot; what is missing and how to get it.
        """

    def start(self, job: Job, command: Command, directory: Path) -> Handle:
        """Start the command with `directory` as working directory; its logs go to `logs/`.

        `launch.json` names the job before it is submitted, and holds its id once there is one, so
        that `attach` finds it although attune was killed at any moment.

        Raises:
            AttuneError: it could not be started.
        """

    def attach(self, job: Job, directory: Path) -> Handle | None:
        """The job that an earlier attune started in `directory`, running or ended.

        None where there is none, or where it ended with that attune; nothing of it is left then.
        """
