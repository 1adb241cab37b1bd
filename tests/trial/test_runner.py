"""Whole runs of the fake trainer on this machine: files, outcomes, watch, limit, Ctrl-C."""

from __future__ import annotations

import _thread
import json
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import yaml
from trial_jobs import fake_job

from attune.catalog import load_cluster, load_model
from attune.errors import AttuneError, LayoutError
from attune.layout import Layout
from attune.trial import Job, Step, read_result, run
from attune.trial.frameworks import Command
from attune.trial.launchers import load_launcher
from attune.trial.launchers.local import LocalHandle, LocalLauncher
from attune.workload import Workload


def test_completed_run_leaves_its_files(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank-7.log").write_text("CUDA out of memory, of a run that was killed\n")
    seen: list[int] = []

    def watch(step: Step) -> bool:
        seen.append(step.step)
        return True

    result = run(fake_job(), load_launcher("local"), tmp_path, watch=watch)
    assert result.outcome == "completed", result.evidence
    assert seen == [0, 1, 2, 3]
    assert [m.rank for m in result.ranks] == [0, 1]
    assert (result.provenance, result.hardware, result.launcher) == ("measured", "cpu", "local")
    assert result.losses == pytest.approx((5.0, 4.9, 4.8, 4.7))
    assert result.wall_s > 0
    assert read_result(tmp_path) == result
    lines = (tmp_path / "steps.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == seen
    told = yaml.safe_load((tmp_path / "trial.yaml").read_text())
    assert (told["model"], told["layout"]) == ("tiny-dense", "tp=1 pp=1")


def test_command_can_be_run_by_hand(tmp_path: Path) -> None:
    run(fake_job(1), load_launcher("local"), tmp_path)
    done = subprocess.run(
        [str(tmp_path / "command.sh")], cwd="/", capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "attune step | step 3 of 4" in done.stdout


@pytest.mark.parametrize(
    ("fault", "outcome", "log_class"),
    [
        ("oom", "out_of_memory", "GPU_OOM"),
        ("kill", "host_out_of_memory", "HOST_OOM"),
        ("code", "infrastructure", "SECONDARY"),
    ],
)
def test_failures(tmp_path: Path, fault: str, outcome: str, log_class: str) -> None:
    result = run(fake_job(fault=fault), load_launcher("local"), tmp_path)
    assert (result.outcome, result.log_class) == (outcome, log_class), result.evidence
    assert result.advice
    if fault == "oom":
        assert (result.rank, result.phase) == (0, "forward of step 1")
        assert result.requested_gib == 2.0


def test_time_limit_ends_a_hang(tmp_path: Path) -> None:
    result = run(fake_job(fault="hang", limit_s=8.0), load_launcher("local"), tmp_path)
    assert (result.outcome, result.log_class) == ("timed_out", "HANG")
    assert result.wall_s >= 8.0


def test_watch_prunes(tmp_path: Path) -> None:
    job = fake_job(steps=500, pause="0.05")
    result = run(job, load_launcher("local"), tmp_path, watch=lambda step: step.step < 2)
    assert result.outcome == "pruned"
    assert [step.step for step in result.steps] == [0, 1, 2]


def test_interrupt_writes_the_result_and_is_raised(tmp_path: Path) -> None:
    def watch(step: Step) -> bool:
        if step.step == 1:
            threading.Timer(0.1, _thread.interrupt_main).start()
        return True

    with pytest.raises(KeyboardInterrupt):
        run(fake_job(steps=500, pause="0.05"), load_launcher("local"), tmp_path, watch=watch)
    result = read_result(tmp_path)
    assert result is not None
    assert result.outcome == "cancelled"


def test_no_result_and_damaged_result(tmp_path: Path) -> None:
    assert read_result(tmp_path) is None
    (tmp_path / "result.json").write_text('{"outcome": "comp')
    with pytest.raises(AttuneError, match="damaged"):
        read_result(tmp_path)


def test_what_the_worker_cannot_train_is_refused_before_anything_starts(tmp_path: Path) -> None:
    job = Job(
        model=load_model("tiny-dense"),
        cluster=load_cluster("cpu", 2),
        workload=Workload(row_tokens=128, global_batch=16, precision="fp32"),
        layout=Layout(optimizer_offload=0.5),
    )
    with pytest.raises(LayoutError, match="does not support `optimizer_offload` yet"):
        run(job, load_launcher("local"), tmp_path / "trial")
    assert not (tmp_path / "trial").exists()


class InterruptedAtOnce(LocalLauncher):
    """Ctrl-C comes when the job is submitted, before anybody holds it."""

    cancelled: ClassVar[list[str]] = []

    def start(self, job: Job, command: Command, directory: Path) -> LocalHandle:
        raise KeyboardInterrupt

    def attach(self, job: Job, directory: Path) -> Any:
        return SimpleNamespace(cancel=lambda: self.cancelled.append(str(directory)))


def test_a_job_interrupted_while_it_is_submitted_is_ended(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(fake_job(), InterruptedAtOnce(), tmp_path)
    assert InterruptedAtOnce.cancelled == [str(tmp_path)]
