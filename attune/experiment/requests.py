"""What another shell asks of a running campaign: a file in the experiment's folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from attune.experiment.experiment import Experiment

_STOP = "stop-requested"


def ask_to_stop(experiment: Experiment) -> None:
    """Asks the campaign to end as Ctrl-C does; it looks between two polls of its run."""
    _path(experiment).touch()


def is_asked_to_stop(experiment: Experiment) -> bool:
    """Whether somebody did."""
    return _path(experiment).exists()


def forget_requests(experiment: Experiment) -> None:
    """Takes back what was asked; a campaign does so when it begins, and when it ends."""
    _path(experiment).unlink(missing_ok=True)


def is_running(experiment: Experiment) -> bool:
    """Whether a process, here or on a machine that shares the folder, runs the campaign."""
    lock = FileLock(experiment.folder / ".lock", timeout=0)
    with suppress(Timeout):
        lock.acquire()
        lock.release()
        return False
    return True


def _path(experiment: Experiment) -> Path:
    return experiment.folder / _STOP
