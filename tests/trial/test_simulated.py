"""Played runs: figures, faults, time limit, pruning, speed."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from launcher_conformance import wait
from trial_jobs import FakeFramework, FakeOutOfMemory, FakePerformance, h200_job

from attune.layout import Layout
from attune.trial import Job, run
from attune.trial.directory import write_command
from attune.trial.frameworks import FRAMEWORKS, Command
from attune.trial.frameworks.megatron_core import WorkerReader
from attune.trial.launchers import local as local_module
from attune.trial.launchers.local import LocalLauncher
from attune.trial.launchers.simulated import SimulatedLauncher
from attune.trial.logs import RunLog
from attune.trial.outcome import decide
from attune.trial.stand_in import Fault, stand_in_command, start_up_s


def test_completed_run(tmp_path: Path, virtual: FakePerformance) -> None:
    job = h200_job()
    result = run(job, SimulatedLauncher(), tmp_path)
    assert result.outcome == "completed", result.evidence
    assert tuple(step.seconds for step in result.steps) == pytest.approx(virtual.step_times_s)
    assert result.losses == pytest.approx(virtual.losses)
    assert {m.stage: m.reserved_gib for m in result.ranks} == {0: 110.0, 1: 95.0}
    assert [m.rank for m in result.ranks] == [0, 8]
    assert result.wall_s == pytest.approx(start_up_s(16) + sum(virtual.step_times_s))
    assert (result.provenance, result.hardware) == ("predicted", "virtual h200")


def test_start_up_is_that_of_the_published_runs() -> None:
    assert start_up_s(128) == pytest.approx(780)
    assert start_up_s(64) == pytest.approx(516)
    assert start_up_s(8192) == start_up_s(128), "no run of thousands starts past its time limit"


@pytest.mark.parametrize(
    ("fault", "outcome", "log_class"),
    [
        ("oom", "out_of_memory", "GPU_OOM"),
        ("hang", "timed_out", "HANG"),
        ("nan", "diverged", "NAN"),
        ("nccl_timeout", "infrastructure", "NCCL_TIMEOUT"),
        ("host_oom", "host_out_of_memory", "HOST_OOM"),
        ("crash", "infrastructure", "CRASH"),
        ("illegal", "illegal_layout", "ILLEGAL_LAYOUT"),
    ],
)
def test_faults(
    tmp_path: Path, virtual: FakePerformance, fault: str, outcome: str, log_class: str
) -> None:
    launcher = SimulatedLauncher(Fault(name=fault))  # type: ignore[arg-type]
    result = run(h200_job(), launcher, tmp_path)
    assert (result.outcome, result.log_class) == (outcome, log_class), result.evidence
    if fault == "hang":
        assert result.wall_s == 1800.0
    assert len(result.steps) <= 4


def test_out_of_memory_of_the_virtual_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    performance = replace(FakePerformance(), step_times_s=(30.0,), out_of_memory=FakeOutOfMemory())
    monkeypatch.setattr("attune.trial.stand_in.program.performance_of", lambda job: performance)
    result = run(h200_job(), SimulatedLauncher(), tmp_path)
    assert (result.outcome, result.rank, result.phase) == ("out_of_memory", 9, "forward")
    assert result.requested_gib == pytest.approx(3.5)
    assert len(result.steps) == 1
    text = (tmp_path / "logs" / "rank-9.log").read_text()
    assert "Tried to allocate 3.50 GiB. GPU 1 has a total capacity of 139.80 GiB of which" in text
    assert "attune echo" in (tmp_path / "logs" / "rank-10.log").read_text()


def test_layout_that_the_framework_rejects(tmp_path: Path) -> None:
    job = replace(h200_job(), layout=Layout(tp=3))
    result = run(job, SimulatedLauncher(), tmp_path)
    assert (result.outcome, result.log_class) == ("illegal_layout", "ILLEGAL_LAYOUT")
    assert "3" in result.evidence


def test_real_virtual_cluster(tmp_path: Path) -> None:
    job = h200_job()
    first = run(job, SimulatedLauncher(), tmp_path / "a")
    again = run(job, SimulatedLauncher(), tmp_path / "b")
    other = run(replace(job, run=1), SimulatedLauncher(), tmp_path / "c")
    assert first.outcome == "completed", first.evidence
    assert first.steps == again.steps
    assert first.steps != other.steps


def test_stand_in_runs_as_a_program_under_torchrun(tmp_path: Path) -> None:
    job = replace(h200_job(2), layout=Layout(pp=2))
    command = stand_in_command(job, fault=Fault(name="host_oom"))
    write_command(command, tmp_path)
    handle = LocalLauncher().start(job, command, tmp_path)
    wait(handle)
    log = RunLog(WorkerReader())
    assert len(list(log.look(handle.log_files()))) <= 3
    verdict = decide(log, steps_asked=20, exit_code=handle.poll().exit_code)
    assert (verdict.outcome, verdict.log_class) == ("host_out_of_memory", "HOST_OOM")


class PlayedFramework(FakeFramework):
    """A framework whose command is the stand-in."""

    def prepare(self, job: Job) -> Command:
        return stand_in_command(replace(job, framework="megatron-core"))


def test_a_stand_in_on_real_processors_measures_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FRAMEWORKS, "played", "test_simulated:PlayedFramework")
    monkeypatch.setattr(local_module, "_check_gpus", lambda cluster: None)
    job = replace(h200_job(2), layout=Layout(pp=2), framework="played")
    result = run(job, LocalLauncher(), tmp_path / "trial")
    assert result.steps
    assert (result.provenance, result.hardware) == ("predicted", "virtual h200")


def test_time_limit_in_mid_run(tmp_path: Path, virtual: FakePerformance) -> None:
    limit_s = start_up_s(16) + 80.0
    result = run(h200_job(limit_s=limit_s), SimulatedLauncher(), tmp_path)
    assert result.outcome == "timed_out"
    assert result.wall_s == limit_s
    assert len(result.steps) == 4


def test_watch_prunes_and_the_clock_stops(tmp_path: Path, virtual: FakePerformance) -> None:
    result = run(h200_job(), SimulatedLauncher(), tmp_path, watch=lambda step: step.step < 2)
    assert result.outcome == "pruned"
    assert len(result.steps) == 3
    assert result.wall_s == pytest.approx(start_up_s(16) + sum(virtual.step_times_s[:3]))


def test_many_runs_are_fast(tmp_path: Path, virtual: FakePerformance) -> None:
    began = time.process_time()
    for index in range(10):
        run(h200_job(128, pp=2), SimulatedLauncher(), tmp_path / str(index))
    assert time.process_time() - began < 3.0
