"""Several runs at once: what happens is told run by run, and all end together."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from trial_jobs import FakePerformance, h200_job

from attune.errors import AttuneError
from attune.trial import Job, Step, TrialResult, read_result, side_by_side
from attune.trial.launchers import Launcher, load_launcher
from attune.trial.launchers.simulated import SimulatedLauncher
from attune.trial.runner import Steps, follow
from attune.trial.side_by_side import SideBySide
from attune.trial.stand_in import Fault


def test_runs_are_told_apart_and_one_is_pruned(
    tmp_path: Path, virtual: FakePerformance, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()

    def held(job: Job, launcher: Launcher, directory: Path, **more: Any) -> Steps:
        """Run 1 begins only once it has been asked to end."""
        if directory.name == "1":
            asked.wait()
        return (yield from follow(job, launcher, directory, **more))

    monkeypatch.setattr(side_by_side, "follow", held)
    runs = SideBySide(load_launcher("simulated"))
    for number in range(3):
        runs.start(number, h200_job(), tmp_path / str(number))
    runs.prune(1)
    asked.set()
    steps: dict[int, list[int]] = {0: [], 1: [], 2: []}
    results: dict[int, TrialResult] = {}
    for run, happened in runs.all():
        if isinstance(happened, Step):
            steps[run].append(happened.step)
        else:
            assert isinstance(happened, TrialResult), happened
            results[run] = happened
    assert runs.running == ()
    assert {run: result.outcome for run, result in results.items()} == {
        0: "completed",
        1: "pruned",
        2: "completed",
    }
    assert steps[0] == steps[2] == list(range(20))
    assert steps[1] == [0]
    assert read_result(tmp_path / "2") == results[2]


def test_a_run_that_cannot_start_says_why(tmp_path: Path, virtual: FakePerformance) -> None:
    runs = SideBySide(load_launcher("simulated"))
    runs.start(0, replace(h200_job(), framework="none"), tmp_path)
    ((run, happened),) = runs.all()
    assert run == 0
    assert isinstance(happened, AttuneError)


def test_a_request_to_stop_ends_all_of_them(tmp_path: Path, virtual: FakePerformance) -> None:
    runs = SideBySide(SimulatedLauncher(Fault(name="hang", step=2)))
    job = replace(h200_job(), limit_s=1e12)
    for number in range(2):
        runs.start(number, job, tmp_path / str(number))
    runs.next()
    with pytest.raises(KeyboardInterrupt):
        while True:
            runs.next(asked_to_stop=lambda: True)
    for number in range(2):
        result = read_result(tmp_path / str(number))
        assert result is not None
        assert result.outcome in ("cancelled", "timed_out")
