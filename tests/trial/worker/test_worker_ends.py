"""How runs of the real worker end: diverged, hung, told to stop, too large."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from processes import gone, living

from attune.catalog import load_cluster, load_model
from attune.layout import parse_layout
from attune.trial import Job, TrialResult, run
from attune.trial.frameworks import load_framework
from attune.trial.launchers import load_launcher
from attune.workload import Workload

pytest.importorskip("megatron.core", reason="the train extra is not installed")


def _job(layout: str, count: int, *, limit_s: float = 240.0, **options: str) -> Job:
    model = load_model("tiny-moe")
    return Job(
        model=model,
        cluster=load_cluster("cpu", count),
        workload=Workload.model_validate({**(model.workload or {}), "steps": 3}),
        layout=parse_layout(layout),
        limit_s=limit_s,
        worker_options=options,
    )


def _run(directory: Path, job: Job) -> TrialResult:
    return run(job, load_launcher("local"), directory)


@pytest.mark.training
def test_a_run_whose_loss_explodes_has_diverged(tmp_path: Path) -> None:
    result = _run(tmp_path, _job("tp=2", 2, learning_rate_scale="1e30"))
    assert (result.outcome, result.log_class) == ("diverged", "NAN")
    assert result.evidence.startswith("DivergenceError") and result.phase


@pytest.mark.training
def test_a_run_too_large_says_what_was_asked_for(tmp_path: Path) -> None:
    result = _run(tmp_path, _job("pp=4 rows=16", 4))
    assert (result.outcome, result.log_class) == ("out_of_memory", "GPU_OOM")
    assert result.requested_gib and 1e-4 < result.requested_gib < 0.046
    assert result.phase and result.phase.endswith("of step 0")


@pytest.mark.training
def test_a_run_that_hangs_is_ended_at_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTUNE_TEST_MARK", marker := f"mark-{tmp_path}")
    result = _run(tmp_path, _job("tp=2", 2, limit_s=25.0, hang_at_step="1"))
    assert (result.outcome, result.log_class) == ("timed_out", "HANG")
    assert len(result.steps) <= 1
    assert gone(marker, 0.0)


@pytest.mark.training
def test_the_learning_rate_is_in_the_loss(train: Callable[..., Any]) -> None:
    short = (("steps", 3),)
    plain = train("tiny-dense", "tp=1", workload=short).losses
    faster = train(
        "tiny-dense", "tp=1", workload=short, options=(("learning_rate_scale", 1.02),)
    ).losses
    assert faster[0] == plain[0]
    assert faster[2] != pytest.approx(plain[2], rel=1e-5)


@pytest.mark.training
def test_torchrun_told_to_stop_leaves_no_rank(tmp_path: Path) -> None:
    command = load_framework("megatron-core").prepare(_job("tp=2", 2, hang_at_step="0"))
    for name, text in command.files.items():
        (tmp_path / name).write_text(text)
    marker, log = f"mark-{tmp_path}", tmp_path / "log"
    words = ["torch.distributed.run", "--standalone", "--nproc-per-node=2", *command.argv]
    with log.open("wb") as output:
        torchrun = subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=tmp_path,
            env={**os.environ, **command.environment, "ATTUNE_TEST_MARK": marker},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    end = time.monotonic() + 300
    while "phase build" not in log.read_text():
        assert time.monotonic() < end and torchrun.poll() is None, log.read_text()
        time.sleep(0.2)
    assert len(living(marker)) >= 3
    torchrun.send_signal(signal.SIGTERM)
    assert torchrun.wait(300) != 0
    assert gone(marker)
