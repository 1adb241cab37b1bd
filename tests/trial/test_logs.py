"""Reading logs that grow, are cut short, carry colours or garbage."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from attune.trial.frameworks.megatron_core import WorkerReader
from attune.trial.logs import RunLog
from attune.trial.result import RankMemory, Step
from attune.trial.worker.log import write_memory, write_phase, write_step


def line_of(step: int) -> str:
    return write_step(Step(step=step, seconds=1.5, loss=4.0, grad_norm=2.0), 20, 1e-3)


def test_reads_on_where_the_last_look_ended(tmp_path: Path) -> None:
    path = tmp_path / "rank-3.log"
    path.write_text(f"{line_of(0)}\n{line_of(1)[:30]}")
    log = RunLog(WorkerReader())
    assert [s.step for s in log.look([path])] == [0]
    with path.open("a") as file:
        file.write(f"{line_of(1)[30:]}\n{line_of(1)}\n")
    assert [s.step for s in log.look([path])] == [1]
    assert list(log.look([path])) == []


def test_a_line_cut_short_gives_no_figures_but_tells_an_error(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    path.write_text(line_of(0))
    other = tmp_path / "rank-1.log"
    other.write_text("CUDA out of memory. Tried to allo")
    log = RunLog(WorkerReader())
    assert list(log.look([path, other])) == []
    log.close()
    assert log.steps == []
    assert [(f.log_class, f.rank) for f in log.findings] == [("GPU_OOM", 1)]


def test_colours_carriage_returns_and_garbage_bytes(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    path.write_bytes(
        b"\xff\xfe\x00 garbage \x80\n 10%\r 20%\r\x1b[1;31m"
        + line_of(0).replace("seconds", "\x1b[0mseconds").encode()
        + b"\x1b[0m\r\n\x1b]0;title\x07"
        + write_memory(
            RankMemory(rank=0, stage=1, allocated_gib=1.0, reserved_gib=2.0, host_gib=3.0)
        ).encode()
        + b"\n"
    )
    log = RunLog(WorkerReader())
    assert [s.step for s in log.look([path])] == [0]
    assert log.ranks[0].reserved_gib == 2.0
    assert log.findings == []


def test_phase_and_size_are_joined_to_the_first_line_of_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "rank-2.log"
    path.write_text(
        f"{write_phase(2, 'optimizer', 9.0)}\n"
        "torch.OutOfMemoryError: CUDA out of memory.\n"
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    )
    log = RunLog(WorkerReader())
    assert list(log.look([path])) == []
    (found,) = log.findings
    assert (found.phase, found.requested_gib, found.rank) == ("optimizer", 2.0, 2)
    assert found.line == "torch.OutOfMemoryError: CUDA out of memory."


def test_a_large_log_takes_constant_memory(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    with path.open("wb") as file:
        file.write(b"x" * 8_000_000 + b"\n")
        file.write(b"SECONDARY Connection closed by peer\n" * 20_000)
    log = RunLog(WorkerReader())
    tracemalloc.start()
    assert list(log.look([path])) == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4_000_000
    assert [f.log_class for f in log.findings] == ["SECONDARY"]


@pytest.mark.parametrize(
    "line",
    [
        "attune step | step 1 of 20 | seconds 1.2.3 | loss 1 | grad_norm 1 | learning_rate 1",
        f"attune step | step {'9' * 6000} of 2 | seconds 1 | loss 1 | grad_norm 1 | "
        "learning_rate 1",
        "attune memory | rank 0 | stage 0 | allocated_gib 1..1 | reserved_gib 1 | host_gib 1",
        f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {'9' * 5000} bytes.",
        f"CUDA out of memory. Tried to allocate {'9' * 5000} GiB.",
    ],
)
def test_numbers_that_are_none_end_nothing(tmp_path: Path, line: str) -> None:
    path = tmp_path / "rank-0.log"
    path.write_text(f"{line}\n\n{line_of(3)}\n")
    log = RunLog(WorkerReader())
    assert [s.step for s in log.look([path])] == [3]
    assert log.ranks == {}
    assert all(found.requested_gib is None for found in log.findings)
