"""Steps of the Slurm allocation that attune runs in: many runs, each on nodes of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from attune.errors import AttuneError
from attune.trial.launchers import slurm_commands as slurm
from attune.trial.launchers.launcher import State
from attune.trial.launchers.record import LaunchRecord, finish_launch
from attune.trial.launchers.slurm_script import write_job_script

_END_LIMIT_S = 60.0
"""How long a step may take to end: the guards kill at once, and Slurm tidies up."""


@dataclass
class Allocation:
    """The nodes of one allocation, and which of them are free."""

    number: str
    """Slurm's number of the job that attune runs in."""
    _taken: set[str] = field(default_factory=set)
    _names: tuple[str, ...] = ()
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def names(self) -> tuple[str, ...]:
        """All nodes, in Slurm's order."""
        if not self._names:
            job = slurm.ask(self.number)
            if job is None or job.over:
                raise AttuneError(f"allocation {self.number} has ended; ask Slurm for another")
            self._names = slurm.node_names(job.node_list)
        return self._names

    def check(self, nodes: int, exclude: tuple[str, ...]) -> None:
        """See that so many nodes can be had.

        Raises:
            AttuneError: the allocation is too small, or over.
        """
        usable = self._usable(exclude)
        if len(usable) < nodes:
            raise AttuneError(
                f"allocation {self.number} has {len(usable)} usable nodes, and a run needs "
                f"{nodes}; pass the --count of what is allocated, or mode=sbatch"
            )

    def take(self, nodes: int, exclude: tuple[str, ...]) -> tuple[str, ...]:
        """Nodes for one run, until they are given back.

        Raises:
            AttuneError: not so many are free.
        """
        with self._lock:
            free = [name for name in self._usable(exclude) if name not in self._taken]
            if len(free) < nodes:
                raise AttuneError(
                    f"{len(free)} nodes of allocation {self.number} are free, and a run needs "
                    f"{nodes}; use fewer --parallel-trials"
                )
            self._taken.update(free[:nodes])
            return tuple(free[:nodes])

    def _usable(self, exclude: tuple[str, ...]) -> list[str]:
        without = slurm.node_names(",".join(exclude))
        return [name for name in self.names if name not in without]

    def give_back(self, names: tuple[str, ...]) -> None:
        """Nodes of a run that has ended."""
        with self._lock:
            self._taken.difference_update(names)


class StepHandle:
    """One step: a shell with srun below it, which ends when its standard input does."""

    interval_s = 0.2

    def __init__(
        self,
        shell: subprocess.Popen[bytes],
        record: LaunchRecord,
        directory: Path,
        allocation: Allocation,
        nodes: tuple[str, ...],
    ) -> None:
        self.job_id = f"{allocation.number} {record.name}"
        self._shell = shell
        self._name = record.name
        self._logs = directory / "logs"
        self._allocation = allocation
        self._nodes = nodes
        self._started = time.monotonic()
        self._ended: float | None = None

    def poll(self) -> State:
        code = self._shell.poll()
        if code is None:
            return State(running=True, nodes=self._nodes)
        if self._ended is None:
            self._ended = time.monotonic()
            self._allocation.give_back(self._nodes)
            self._let_go()
        return State(running=False, exit_code=128 - code if code > 128 else code, nodes=self._nodes)

    def cancel(self) -> None:
        if self.poll().running:
            self._let_go()
            try:
                self._shell.wait(_END_LIMIT_S)
            except subprocess.TimeoutExpired:
                end_step(self._name)
                with suppress(ProcessLookupError):
                    os.killpg(self._shell.pid, signal.SIGKILL)
                self._shell.wait()
        self.poll()

    def _let_go(self) -> None:
        """The end of standard input, which srun passes on to the guard on every node."""
        assert self._shell.stdin is not None
        self._shell.stdin.close()

    def log_files(self) -> list[Path]:
        return sorted(self._logs.glob("*.log"))

    def elapsed_s(self) -> float:
        return (self._ended or time.monotonic()) - self._started


def start_step(
    allocation: Allocation,
    exclude: tuple[str, ...],
    directory: Path,
    *,
    record: LaunchRecord,
    nodes: int,
    gres: str | None,
    template: str,
) -> StepHandle:
    """Starts `node.sh` of the directory on free nodes of the allocation.

    Raises:
        AttuneError: not so many nodes are free.
    """
    names = allocation.take(nodes, exclude)
    srun = (
        f"--jobid={allocation.number}",
        f"--nodes={nodes}",
        f"--ntasks={nodes}",
        f"--nodelist={','.join(names)}",
        # attune itself may run in a step of this allocation.
        "--overlap",
        *((f"--gres={gres}",) if gres else ()),
    )
    head = f"echo {slurm.node_address(names[0])}"
    script = write_job_script(directory, template=template, name=record.name, srun=srun, head=head)
    with (directory / "logs" / "launcher.log").open("ab") as output:
        shell = subprocess.Popen(
            ["bash", str(script.resolve())],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    handle = StepHandle(shell, record, directory.resolve(), allocation, names)
    try:
        finish_launch(record, str(shell.pid), directory)
        return handle
    except BaseException:
        handle.cancel()
        raise


def attach_step(record: LaunchRecord) -> None:
    """Sees the end of a step whose attune was killed: its guards end with their standard input."""
    end = time.monotonic() + _END_LIMIT_S
    with suppress(slurm.SlurmSilentError):
        while slurm.find_step(record.name) and time.monotonic() < end:
            time.sleep(0.5)
    end_step(record.name)


def end_step(name: str) -> None:
    """Ends the step of that name, if it still runs."""
    with suppress(slurm.SlurmSilentError):
        if number := slurm.find_step(name):
            slurm.cancel(number)
