"""Campaigns of real training on a real Slurm: killed, interrupted, stopped from another shell."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_cluster import slurm

from attune.experiment import Experiment
from attune.experiment.events import Finished, Interrupted

pytestmark = pytest.mark.slurm

TINY = (
    *("tune", "--model", "tiny-dense", "--gpu", "cpu", "--count", "2", "--steps", "4"),
    *("--global-batch", "4", "--trials", "1", "--yes", "--experiment-name", "tiny"),
    *("--launcher", "slurm", "--launcher-option", "poll_s=0.2"),
)


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[Path]:
    with slurm(2) as folder:
        yield folder


@pytest.fixture
def tiny(tmp_path: Path) -> Experiment:
    return Experiment(tmp_path / "experiments" / "tiny")


def queue() -> list[str]:
    asked = ["squeue", "--noheader", "--format=%i"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()


def begun(tiny: Experiment, run: int) -> bool:
    """Whether the job of a run is submitted, and known by its number."""
    path = tiny.run_folder(run) / "launch.json"
    return path.exists() and '"job_id": null' not in path.read_text()


def test_kill_9_leaves_the_job_and_resume_goes_on_with_it(attune, tiny):
    run = attune(*TINY)
    run.wait_until(lambda: begun(tiny, 1))
    record = (tiny.run_folder(1) / "launch.json").read_text()
    run.process.kill()
    run.process.wait(30)
    resumed = attune("tune", "--resume", "tiny", "--yes")
    assert resumed.wait() in (0, 1), resumed.text
    assert (tiny.run_folder(1) / "launch.json").read_text() == record, "the same job"
    events = tiny.events()
    assert not any(isinstance(event, Interrupted) for event in events), resumed.text
    ended = [event for event in events if isinstance(event, Finished)]
    assert ended[1].run == 1 and ended[1].outcome == "completed", resumed.text
    assert all(event.provenance == "measured" for event in ended)
    assert queue() == []
    watched = attune("watch", "tiny")
    assert watched.wait() == 0, watched.text
    assert "run 1 completed" in watched.text


def test_ctrl_c_leaves_no_job(attune, tiny):
    run = attune(*TINY)
    run.wait_until(lambda: begun(tiny, 0))
    run.interrupt()
    assert run.wait() == 130, run.text
    assert "attune tune --resume tiny" in run.text
    assert queue() == []


def test_stop_from_another_shell(attune, tiny):
    run = attune(*TINY)
    run.wait_until(lambda: begun(tiny, 0))
    watching = attune("watch", "tiny")
    stopping = attune("stop", "tiny")
    assert stopping.wait() == 0, stopping.text
    assert "stopped; go on with: attune tune --resume tiny" in stopping.text
    assert run.wait() == 130, run.text
    assert watching.wait() == 1, watching.text
    assert queue() == []
    again = attune("stop", "tiny")
    assert again.wait() == 1
    assert "is not running" in again.text
