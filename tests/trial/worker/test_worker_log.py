"""Every line of the worker's log is read back as it was written."""

from __future__ import annotations

import math

import pytest

from attune.trial.result import RankMemory, Step
from attune.trial.worker import log


@pytest.mark.parametrize("loss", [6.93147182, 1e-12, 3.5e20, math.inf])
def test_step_is_read_back(loss: float) -> None:
    step = Step(step=3, seconds=0.25, loss=loss, grad_norm=1.5)
    assert log.read_step("[rank1]: " + log.write_step(step, 20, 1e-3)) == step


def test_step_with_nan_loss_is_read_back_as_nan() -> None:
    line = log.write_step(Step(step=0, seconds=1.0, loss=math.nan, grad_norm=math.nan), 20, 1e-3)
    step = log.read_step(line)
    assert step is not None and step.loss is not None and math.isnan(step.loss)


def test_memory_is_read_back() -> None:
    memory = RankMemory(rank=2, stage=1, allocated_gib=0.125, reserved_gib=0.25, host_gib=0.5)
    assert log.read_memory(log.write_memory(memory)) == memory


@pytest.mark.parametrize(("step", "requested"), [(None, None), (4, 1 << 30)])
def test_error_is_read_back_on_one_line(step: int | None, requested: int | None) -> None:
    error = log.WorkerError(
        rank=1,
        stage=0,
        phase="forward",
        step=step,
        kind="out_of_memory",
        requested_bytes=requested,
        message="can't allocate\n  memory | here",
    )
    line = log.write_error(error)
    assert "\n" not in line
    read = log.read_error(line)
    assert read is not None
    assert read.message == "can't allocate memory | here"
    assert (read.step, read.requested_bytes, read.kind) == (step, requested, "out_of_memory")


def test_other_lines_are_not_read() -> None:
    line = "RuntimeError: Connection closed by peer [127.0.0.1]:4711"
    assert log.read_step(line) is log.read_memory(line) is log.read_error(line) is None
    assert log.ERROR.search(log.write_echo(3, line)) is None
