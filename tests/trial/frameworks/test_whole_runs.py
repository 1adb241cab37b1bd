"""Whole runs of every framework, played in its own log format."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from trial_jobs import FakePerformance, h200_job

from attune.layout import Layout
from attune.trial import Job, run
from attune.trial.frameworks import Command, load_framework
from attune.trial.launchers import local as local_module
from attune.trial.launchers.local import LocalLauncher
from attune.trial.launchers.simulated import SimulatedLauncher
from attune.trial.logs import LogReader
from attune.trial.setup import Patterns, Setup
from attune.trial.stand_in import Fault, stand_in_command

NAMES = ("megatron-core", "megatron-lm", "megatron-bridge", "miles", "slime", "command")
COMMAND = Setup(
    command="python3 train.py --tp {tp} --pp {pp} --layout '{layout}'",
    patterns=Patterns(
        step=r"\[step (\d+)\]",
        loss=r"loss[:=] ?(?P<loss>\S+)",
        step_time=r"took ([\d.,]+) ms",
        step_time_unit="ms",
        grad_norm=r"norm (\S+)",
        memory=r"peak (\d+(?:\.\d+)?)GiB",
    ),
)


def job_for(framework: str, count: int = 16) -> Job:
    setup = COMMAND if framework == "command" else Setup()
    return replace(h200_job(count), framework=framework, setup=setup)


@pytest.mark.parametrize("framework", NAMES)
def test_a_played_run_is_read_back(
    framework: str, tmp_path: Path, virtual: FakePerformance
) -> None:
    result = run(job_for(framework), SimulatedLauncher(), tmp_path)
    assert result.outcome == "completed", result.evidence
    assert [s.step for s in result.steps] == list(range(20)), "the first step is step 0"
    assert [s.seconds for s in result.steps] == pytest.approx(virtual.step_times_s, rel=1e-4)
    assert result.losses == pytest.approx(virtual.losses, rel=1e-5)
    assert {s.grad_norm for s in result.steps} == {1.0}
    assert result.peak_reserved_gib == pytest.approx(110.0, rel=1e-3)
    if framework != "command":
        assert {m.rank: m.stage for m in result.ranks} == {0: 0, 8: 1}
        assert {m.stage: m.reserved_gib for m in result.ranks} == pytest.approx(
            {0: 110.0, 1: 95.0}, rel=1e-3
        )


@pytest.mark.parametrize("framework", NAMES)
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
    framework: str,
    fault: Any,
    outcome: str,
    log_class: str,
    tmp_path: Path,
    virtual: FakePerformance,
) -> None:
    result = run(job_for(framework), SimulatedLauncher(Fault(name=fault)), tmp_path)
    assert (result.outcome, result.log_class) == (outcome, log_class), result.evidence
    if fault == "oom":
        assert (result.rank, result.requested_gib) == (0, 2.0)
        assert result.phase == "forward"
    if fault in ("oom", "crash", "nccl_timeout"):
        assert result.rank == 0


class Played:
    """A framework whose command is the stand-in, in its own format."""

    held: ClassVar[dict[str, Any]] = {}
    modules = ()

    def __init__(self, name: str) -> None:
        self.name = name
        self._real = load_framework(name)

    def refuses(self, job: Job) -> str | None:
        return None

    def refuses_model(self, job: Job) -> str | None:
        return None

    def prepare(self, job: Job) -> Command:
        return stand_in_command(job)

    def run_block(self, job: Job) -> str:
        return self._real.run_block(job)

    def own_weights(self, job: Job) -> str | None:
        return self._real.own_weights(job)

    def reader(self, job: Job | None = None) -> LogReader:
        return self._real.reader(job)


@pytest.mark.parametrize("framework", NAMES[1:])
def test_a_run_under_torchrun(
    framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = Played(framework)
    monkeypatch.setattr("attune.trial.runner.load_framework", lambda name: played)
    monkeypatch.setattr(local_module, "_check_gpus", lambda cluster: None)
    job = replace(job_for(framework, 2), layout=Layout(pp=2))
    result = run(job, LocalLauncher(), tmp_path / "trial")
    assert result.steps[0].step == 0
    assert result.outcome in ("completed", "out_of_memory"), result.evidence
    assert result.provenance == "predicted"
