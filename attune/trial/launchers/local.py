"""Runs a job on this machine: torchrun, under a guard that leaves no process behind."""

from __future__ import annotations

import contextlib
import math
import os
import platform
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from attune.catalog import Cluster
from attune.errors import AttuneError
from attune.trial.frameworks.framework import Command
from attune.trial.job import Job
from attune.trial.launchers.choose import installed_gpus, is_same
from attune.trial.launchers.launcher import State
from attune.trial.launchers.node_script import write_node_script
from attune.trial.launchers.record import begin_launch, finish_launch, read_launch
from attune.trial.result import Provenance

_GUARD = Path(__file__).with_name("guard.py")
_GRACE_S = 5.0
"""How long ranks may take to end after SIGTERM before they are killed."""
_UNCOUNTED = ("cpu", "cdna3")
"""Architectures whose parts nvidia-smi does not list."""


class LocalHandle:
    """A guard process with torchrun and the ranks below it."""

    interval_s = 0.1

    def __init__(self, guard: subprocess.Popen[bytes], logs: Path) -> None:
        self._guard = guard
        self._logs = logs
        self._started = time.monotonic()
        self._ended: float | None = None

    @property
    def job_id(self) -> str:
        return str(self._guard.pid)

    def poll(self) -> State:
        code = self._guard.poll()
        nodes = (platform.node(),)
        if code is None:
            return State(running=True, nodes=nodes)
        if self._ended is None:
            self._ended = time.monotonic()
            assert self._guard.stdin is not None
            self._guard.stdin.close()
        return State(running=False, exit_code=128 - code if code > 128 else code, nodes=nodes)

    def cancel(self) -> None:
        if self.poll().running:
            self._guard.send_signal(signal.SIGTERM)
            try:
                self._guard.wait(_GRACE_S + 10)
            except subprocess.TimeoutExpired:
                # The kernel ends torchrun and the ranks with the guard (PR_SET_PDEATHSIG).
                self._guard.kill()
                self._guard.wait()
        self.poll()

    def log_files(self) -> list[Path]:
        return sorted(self._logs.glob("*.log"))

    def elapsed_s(self) -> float:
        return (self._ended or time.monotonic()) - self._started


class LocalLauncher:
    """torchrun on this machine, one process per GPU, or per core on `cpu`."""

    name = "local"
    provenance: Provenance = "measured"
    queue_limit_s = math.inf

    def excluding(self, nodes: tuple[str, ...]) -> LocalLauncher:
        return self

    def check(self, job: Job, modules: tuple[str, ...]) -> None:
        refuse_missing(modules)
        if job.cluster.nodes > 1:
            raise AttuneError(
                f"the local launcher runs one node, but {job.cluster.count} "
                f"{job.cluster.gpu.name} fill {job.cluster.nodes}; use a count of at most "
                f"{job.cluster.per_node}, or the launcher of your scheduler"
            )
        if job.cluster.gpu.architecture not in _UNCOUNTED:
            _check_gpus(job.cluster)

    def start(self, job: Job, command: Command, directory: Path) -> LocalHandle:
        logs = directory.resolve() / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        record = begin_launch(self.name, directory)
        with (logs / "launcher.log").open("ab") as output:
            guard = subprocess.Popen(
                _words(command, directory.resolve()),
                cwd=directory,
                env=_environment(command),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            finish_launch(record, str(guard.pid), directory)
            return LocalHandle(guard, logs)
        except BaseException:
            guard.kill()
            guard.wait()
            raise

    def attach(self, job: Job, directory: Path) -> None:
        """The guard ends with the attune that started it; waits until it has."""
        record = read_launch(self.name, directory)
        end = time.monotonic() + _GRACE_S + 10
        while record and record.job_id and _guards(record.job_id) and time.monotonic() < end:
            time.sleep(0.05)


def _guards(process: str) -> bool:
    """Whether that process is a guard: its number may be another's by now."""
    try:
        return _GUARD.name.encode() in Path(f"/proc/{int(process)}/cmdline").read_bytes()
    except (OSError, ValueError):
        return False


def _check_gpus(cluster: Cluster) -> None:
    """The result will say that it was measured on this GPU, so the machine must have it."""
    installed = installed_gpus()
    same = [part for part in installed if is_same(part, cluster.gpu)]
    if len(same) < cluster.count:
        names = ", ".join(sorted({part.name for part in installed})) or "no GPU"
        raise AttuneError(
            f"the local launcher needs {cluster.count} {cluster.gpu.name}, and this machine has "
            f"{len(same)} of them ({names}); pass --gpu and --count of what is here, or "
            "`--launcher simulated` for predictions only"
        )


def refuse_missing(modules: tuple[str, ...]) -> None:
    """See that this Python, which the ranks run by, has these modules and torch.

    Raises:
        AttuneError: it has not.
    """
    missing = [module for module in ("torch", *modules) if not _installed(module)]
    if missing:
        raise AttuneError(
            f"training on this machine needs {', '.join(dict.fromkeys(missing))}, "
            "which is not installed here; run `pip install attune[train]`"
        )


def _installed(module: str) -> bool:
    with contextlib.suppress(ModuleNotFoundError):
        return find_spec(module) is not None
    return False


def _environment(command: Command) -> dict[str, str]:
    return {**os.environ, **command.environment, "PYTHONUNBUFFERED": "1"}


def _guarded(*words: str) -> list[str]:
    return [sys.executable, "-I", str(_GUARD), *words]


def _words(command: Command, directory: Path) -> list[str]:
    """The guard with what it keeps below it."""
    kept = _guarded("supervise", str(_GRACE_S))
    logs = directory / "logs"
    if command.starter == "program":
        logged = _guarded("log", str(logs / "node-0.log"))
        return [*kept, *logged, sys.executable, *command.argv]
    if command.starter == "ray_driver":
        # The script becomes the guard.
        script = write_node_script(command, directory, python=sys.executable, mode="supervise")
        return ["env", "ATTUNE_HEAD=127.0.0.1", f"ATTUNE_PORT={_free_port()}", "sh", str(script)]
    return [*kept, *_torchrun(command, logs)]


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def _torchrun(command: Command, logs: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "torch.distributed.run"),
        # A rendezvous on a free port of the loopback, so that runs side by side do not meet.
        *("--standalone", "--local-addr", "127.0.0.1"),
        *("--nproc-per-node", str(command.processes_per_node), "--max-restarts", "0"),
        *("--no-python", *_guarded("rank", str(logs)), sys.executable, *command.argv),
    ]
