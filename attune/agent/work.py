"""Trials and campaigns that an agent starts: each a process of its own, one at a time.

What was started is written beside it, so that the budget counts all of it, whichever server
started it and however it ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from attune.agent.limits import Limits
from attune.errors import AttuneError
from attune.experiment import Experiment, experiments_folder
from attune.experiment.requests import is_running
from attune.report.history import history_of
from attune.trial.runner import read_result

_MARK = "agent.json"
_LOG = "agent.log"
_END_S = 20.0
"""Wait for a process that was asked to end; it cancels its run and writes it down first."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """One trial or campaign that an agent started."""

    id: str
    """`trial-0001`, or the name of an experiment."""
    folder: Path
    reserved_gpu_hours: float
    """What it may spend; counted whole while its true cost is not known."""

    @property
    def is_trial(self) -> bool:
        """A single trial has no journal."""
        return not (self.folder / "experiment.yaml").is_file()

    def log(self, most: int = 600) -> str:
        """The end of what its process said."""
        try:
            return (self.folder / _LOG).read_text("utf-8", errors="replace")[-most:].strip()
        except OSError:
            return ""


class Work:
    """Everything that an agent has started in this folder of experiments."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self, item: Item, command: Sequence[str], prepare: Callable[[], object] | None = None
    ) -> None:
        """Starts `attune COMMAND` for an item, whose folder it makes.

        Args:
            item: what is started.
            command: words of the command line.
            prepare: called once nothing stands in the way; what it raises stops the start.

        Raises:
            AttuneError: something still runs, or the budget does not hold it.
        """
        with self._lock:
            self._refuse_second(item)
            left = self.gpu_hours_left(besides=item.id)
            if left is not None and item.reserved_gpu_hours > left + 1e-9:
                raise AttuneError(
                    f"{item.id} may need {item.reserved_gpu_hours:.3g} GPU-hours and "
                    f"{left:.3g} are left of --max-gpu-hours; ask for fewer, or ask the user"
                )
            if prepare is not None:
                prepare()
            item.folder.mkdir(parents=True, exist_ok=True)
            mark = {"id": item.id, "reserved_gpu_hours": item.reserved_gpu_hours}
            (item.folder / _MARK).write_text(json.dumps(mark) + "\n", encoding="utf-8")
            self._processes[item.id] = _launch(command, item.folder / _LOG)

    def _refuse_second(self, item: Item) -> None:
        busy = next((other for other in self.items() if self.runs(other)), None)
        if busy is not None:
            raise AttuneError(
                f"`{busy.id}` is still running, and only one thing runs at a time; watch it, or "
                f"cancel it, before `{item.id}`"
            )

    def items(self) -> Iterator[Item]:
        """Every trial and campaign that an agent started, also by an earlier server."""
        folder = experiments_folder()
        for mark in sorted([*folder.glob(f"*/{_MARK}"), *folder.glob(f"trials/*/{_MARK}")]):
            with suppress(OSError, ValueError, KeyError, TypeError):
                told = json.loads(mark.read_text("utf-8"))
                yield Item(
                    id=str(told["id"]),
                    folder=mark.parent,
                    reserved_gpu_hours=float(told["reserved_gpu_hours"]),
                )

    def find(self, identifier: str) -> Item | None:
        """The item of that id, or None."""
        return next((item for item in self.items() if item.id == identifier), None)

    def runs(self, item: Item) -> bool:
        """Whether its process still runs, here or under another server."""
        process = self._processes.get(item.id)
        if process is not None and process.poll() is None:
            return True
        return not item.is_trial and is_running(Experiment(item.folder))

    def gpu_hours(self, item: Item) -> float:
        """What it has cost; what it may cost while that is not known."""
        if item.is_trial:
            result = read_result(item.folder)
            return result.gpu_hours if result else item.reserved_gpu_hours
        spent = history_of(Experiment(item.folder).events()).gpu_hours
        return max(spent, item.reserved_gpu_hours) if self.runs(item) else spent

    def gpu_hours_left(self, besides: str = "") -> float | None:
        """Of the user's budget, one item left out; None where there is no limit."""
        if self._limits.max_gpu_hours is None:
            return None
        spent = sum(self.gpu_hours(item) for item in self.items() if item.id != besides)
        return max(self._limits.max_gpu_hours - spent, 0.0)

    def cancel(self, item: Item) -> bool:
        """Asks it to end, and waits a little; whether it has ended."""
        process = self._processes.get(item.id)
        if process is None:
            from attune.verbs.watch import stop

            return stop(item.id, limit_s=_END_S)
        return _end(process)

    def close(self) -> None:
        """Ends what this server started; campaigns can be resumed."""
        for process in self._processes.values():
            if not _end(process):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _launch(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        # A group of its own: signals for the server do not hit a run without being written down.
        return subprocess.Popen(
            [sys.executable, "-m", "attune.cli", *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _end(process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        return False
    return True
