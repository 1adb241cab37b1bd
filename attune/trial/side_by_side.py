"""Runs several jobs at once, and tells what happens in the order in which it happens."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from attune.trial.job import Job
from attune.trial.launchers.launcher import Launcher
from attune.trial.result import Step, TrialResult
from attune.trial.runner import follow

Happening = Step | TrialResult | BaseException
"""A step, the result of a run that ended, or why a run could not be followed to its end."""


class SideBySide:
    """Jobs in flight, each followed by a thread of its own; one thread calls.

    A launcher that has an allocation gives each job nodes of its own; a queue does so by itself.
    """

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._happened: queue.Queue[tuple[int, Happening]] = queue.Queue()
        self._pruned: dict[int, threading.Event] = {}
        self._stopping = threading.Event()
        self._threads: dict[int, threading.Thread] = {}

    @property
    def running(self) -> tuple[int, ...]:
        """Numbers of the runs whose end was not told yet."""
        return tuple(self._threads)

    def start(self, run: int, job: Job, directory: Path) -> None:
        """Starts a job; what happens to it is told under the number `run`."""
        self._pruned[run] = threading.Event()
        arguments = (run, job, directory)
        self._threads[run] = threading.Thread(target=self._follow, args=arguments, daemon=True)
        self._threads[run].start()

    def prune(self, run: int) -> None:
        """Ends a run after its next step, as `pruned`."""
        self._pruned[run].set()

    def stop(self) -> None:
        """Ends all runs as Ctrl-C does; each is written down as cancelled."""
        self._stopping.set()

    def next(self, asked_to_stop: Callable[[], bool] | None = None) -> tuple[int, Happening]:
        """What happens next, waiting for it; a run's last happening is no `Step`.

        Raises:
            KeyboardInterrupt: after all runs are ended and written down.
        """
        try:
            while True:
                if asked_to_stop is not None and asked_to_stop():
                    raise KeyboardInterrupt
                try:
                    run, happened = self._happened.get(timeout=0.2)
                except queue.Empty:
                    continue
                if not isinstance(happened, Step):
                    self._threads.pop(run).join()
                return run, happened
        except KeyboardInterrupt:
            self.stop()
            for thread in self._threads.values():
                thread.join()
            raise

    def all(self) -> Iterator[tuple[int, Happening]]:
        """Everything that happens until no run is in flight; more may be started meanwhile."""
        while self._threads:
            yield self.next()

    def _follow(self, run: int, job: Job, directory: Path) -> None:
        steps = follow(job, self._launcher, directory, asked_to_stop=self._stopping.is_set)
        keep: bool | None = None
        try:
            while True:
                self._happened.put((run, steps.send(keep)))
                keep = not self._pruned[run].is_set()
        except StopIteration as end:
            self._happened.put((run, end.value))
        except BaseException as error:
            self._happened.put((run, error))
