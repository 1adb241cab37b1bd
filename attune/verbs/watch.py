"""Follows a campaign that another process runs, and asks it to stop."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

from attune.errors import NothingFoundError
from attune.experiment import Experiment
from attune.experiment.events import Completed, Event, Progress, Proposed
from attune.experiment.requests import ask_to_stop, is_asked_to_stop, is_running

_LOOK_S = 1.0


def watch(experiment: str) -> Iterator[Event]:
    """Events of the campaign, from its first to its end or to where no process runs it any more.

    Raises:
        AttuneError: no such experiment, or a damaged journal.
        NothingFoundError: its journal is empty and nobody runs it.
    """
    found = Experiment.open(experiment)
    told, seen = 0, False
    steps = _Steps(found)
    while True:
        # Whether it runs comes first, so that what an ended campaign wrote last is still told.
        running = is_running(found)
        events = found.events()
        for event in events[told:]:
            seen = True
            yield event
            steps.begin(event)
        told = len(events)
        yield from steps.new()
        if not running or (events and isinstance(events[-1], Completed)):
            break
        time.sleep(_LOOK_S)
    if not seen:
        raise NothingFoundError(
            f"experiment `{experiment}` has no journal yet, and no process runs it; "
            f"`attune tune --resume {experiment}` goes on"
        )


class _Steps:
    """The steps of the run in flight, as its folder tells them."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._steps = experiment.inputs().workload.steps
        self._run: int | None = None
        self._told = 0

    def begin(self, event: Event) -> None:
        """Another run starts, or the one in flight has ended."""
        if event.kind in ("proposed", "finished", "interrupted"):
            self._run = event.run if isinstance(event, Proposed) else None
            self._told = 0

    def new(self) -> Iterator[Progress]:
        """Steps that were not told yet."""
        if self._run is None:
            return
        lines = _whole_lines(self._experiment.run_folder(self._run) / "steps.jsonl")
        # A run that is followed anew after a kill writes its steps again.
        for line in lines[self._told :]:
            step = json.loads(line)
            yield Progress(
                run=self._run,
                step=step["step"],
                steps=self._steps,
                seconds=step["seconds"],
                loss=step["loss"],
            )
        self._told = max(self._told, len(lines))


def _whole_lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split("\n")[:-1]
    except OSError:
        return []


def stop(experiment: str, *, limit_s: float = 300.0) -> bool:
    """Asks the campaign to stop and waits for it; whether it has ended within the limit.

    Raises:
        AttuneError: no such experiment.
        NothingFoundError: no process runs it.
    """
    found = Experiment.open(experiment)
    if not is_running(found):
        raise NothingFoundError(f"experiment `{experiment}` is not running; nothing to stop")
    ask_to_stop(found)
    end = time.monotonic() + limit_s
    while is_running(found) and time.monotonic() < end:
        time.sleep(min(_LOOK_S, 0.2))
    return not (is_running(found) and is_asked_to_stop(found))
