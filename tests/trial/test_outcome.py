"""How a run ended, from what all ranks logged."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from attune.trial.frameworks.megatron_core import WorkerReader
from attune.trial.logs import RunLog
from attune.trial.outcome import Verdict, decide
from attune.trial.result import Step
from attune.trial.worker.log import WorkerError, write_error, write_step

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
CLOSED = "RuntimeError: pair.cc Connection closed by peer"
WATCHDOG = "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)"
KILLED = "  exitcode  : -9 (pid: 7)"
ELASTIC = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"

# What a C++ program says that has no room: its own words, then torchrun's.
ABORT = (
    "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n"
    "E1 api.py:984] failed (exitcode: -6) local_rank: 1 (pid: 7)\n"
    "traceback : Signal 6 (SIGABRT) received by PID 7"
)
NO_THREAD = (
    "terminate called after throwing an instance of 'std::system_error'\n"
    "  what():  Resource temporarily unavailable\nexitcode  : -6 (pid: 7)"
)
CPU_ALLOCATOR = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't "
    "allocate memory: you tried to allocate 4194304 bytes. Error code 12 (Cannot allocate memory)"
)


def worker_oom(message: str) -> str:
    return write_error(
        WorkerError(
            rank=0,
            stage=0,
            phase="forward",
            step=0,
            kind="out_of_memory",
            requested_bytes=None,
            message=message,
        )
    )


def steps(count: int, loss: float = 3.0) -> str:
    lines = (Step(step=i, seconds=1.0, loss=loss, grad_norm=1.0) for i in range(count))
    return "".join(write_step(step, 4, 0.1) + "\n" for step in lines)


def verdict(folder: Path, logs: dict[str, str], **ended: Any) -> Verdict:
    for name, text in logs.items():
        (folder / f"{name}.log").write_text(text if text.endswith("\n") else text + "\n")
    log = RunLog(WorkerReader())
    list(log.look(sorted(folder.glob("*.log"))))
    log.close()
    ended.setdefault("exit_code", 1)
    return decide(log, steps_asked=4, **ended)


@pytest.mark.parametrize(
    ("logs", "ended", "outcome", "log_class"),
    [
        ({"rank-0": steps(4)}, {"exit_code": 0}, "completed", None),
        ({"rank-0": steps(4) + "UserWarning: x\n"}, {"exit_code": 0}, "completed", None),
        ({"rank-0": steps(3)}, {"exit_code": 0}, "incomplete", None),
        ({"rank-0": ""}, {"exit_code": 0}, "incomplete", None),
        ({"rank-0": CLOSED, "rank-1": OOM}, {}, "out_of_memory", "GPU_OOM"),
        ({"rank-0": WATCHDOG, "rank-1": OOM}, {}, "out_of_memory", "GPU_OOM"),
        ({"rank-0": OOM, "rank-1": steps(1)}, {"stopped": "timed_out"}, "out_of_memory", "GPU_OOM"),
        ({"rank-0": WATCHDOG, "rank-1": CLOSED}, {}, "infrastructure", "NCCL_TIMEOUT"),
        ({"rank-0": CLOSED, "launcher": KILLED}, {}, "host_out_of_memory", "HOST_OOM"),
        ({"rank-0": CLOSED, "launcher": ELASTIC}, {}, "infrastructure", "SECONDARY"),
        ({"rank-0": steps(1)}, {"exit_code": -9}, "host_out_of_memory", "HOST_OOM"),
        ({"rank-0": steps(1)}, {"exit_code": 137}, "host_out_of_memory", "HOST_OOM"),
        ({"rank-0": OOM}, {"exit_code": 137}, "out_of_memory", "GPU_OOM"),
        ({"rank-0": "ValueError: no"}, {"exit_code": 137}, "infrastructure", "CRASH"),
        ({"rank-0": steps(1)}, {"exit_code": 2}, "infrastructure", "CRASH"),
        ({"rank-0": steps(4)}, {"exit_code": 1}, "infrastructure", "CRASH"),
        ({"rank-0": steps(1)}, {"stopped": "timed_out"}, "timed_out", "HANG"),
        ({"rank-0": "", "launcher": KILLED}, {"stopped": "timed_out"}, "timed_out", "HANG"),
        ({"rank-0": steps(2)}, {"stopped": "pruned"}, "pruned", None),
        ({"rank-0": steps(2), "rank-1": CLOSED}, {"stopped": "cancelled"}, "cancelled", None),
        ({"rank-0": steps(4, math.nan)}, {"exit_code": 0}, "diverged", "NAN"),
        ({"rank-0": steps(2, math.inf)}, {}, "diverged", "NAN"),
        ({"rank-0": steps(2, math.nan)}, {"stopped": "pruned"}, "diverged", "NAN"),
        ({"rank-0": "std::bad_alloc"}, {"on_cpu": True}, "out_of_memory", "GPU_OOM"),
        ({"rank-0": "std::bad_alloc"}, {}, "host_out_of_memory", "HOST_OOM"),
        ({"rank-0": CLOSED, "rank-1": ABORT}, {"on_cpu": True}, "out_of_memory", "GPU_OOM"),
        ({"rank-0": CLOSED, "rank-1": NO_THREAD}, {"on_cpu": True}, "out_of_memory", "GPU_OOM"),
        ({"rank-0": CLOSED, "rank-1": NO_THREAD}, {}, "host_out_of_memory", "HOST_OOM"),
        ({"rank-0": worker_oom(CPU_ALLOCATOR)}, {"on_cpu": True}, "out_of_memory", "GPU_OOM"),
        ({"rank-0": worker_oom(CPU_ALLOCATOR)}, {}, "host_out_of_memory", "HOST_OOM"),
        ({"rank-0": worker_oom(OOM)}, {}, "out_of_memory", "GPU_OOM"),
        ({"launcher": KILLED}, {"on_cpu": True}, "host_out_of_memory", "HOST_OOM"),
    ],
)
def test_outcome(
    tmp_path: Path, logs: dict[str, str], ended: Any, outcome: str, log_class: str | None
) -> None:
    found = verdict(tmp_path, logs, **ended)
    assert (found.outcome, found.log_class) == (outcome, log_class)
    assert found.evidence or outcome == "completed"


def test_time_decides_between_ranks_where_every_line_has_one(tmp_path: Path) -> None:
    logs = {
        "rank-0": f"[2026-01-01 00:10:00.5] ready\n{OOM}",
        "rank-1": f"[2026-01-01 00:05:00.5] ready\n{WATCHDOG}",
    }
    assert verdict(tmp_path, logs).log_class == "NCCL_TIMEOUT"
    logs["rank-1"] = f"[2026-01-01 00:20:00.5] ready\n{WATCHDOG}"
    assert verdict(tmp_path, logs).log_class == "GPU_OOM"


def test_first_error_of_one_log_decides(tmp_path: Path) -> None:
    timeout = "RuntimeError: DeepEP error: timeout (dispatch CPU)"
    later = "RuntimeError: CUDA error: an illegal memory access was encountered"
    assert verdict(tmp_path, {"rank-5": f"{timeout}\n{later}"}).log_class == "NCCL_TIMEOUT"


def test_an_exception_of_the_worker_decides_over_the_launchers_echoes(tmp_path: Path) -> None:
    error = WorkerError(
        rank=0,
        stage=0,
        phase="forward",
        step=2,
        kind="exception",
        requested_bytes=None,
        message="RuntimeError: failed at step 2, as asked",
    )
    logs = {"rank-0": write_error(error), "launcher": "Sending process 7 closing signal SIGTERM"}
    found = verdict(tmp_path, logs)
    assert (found.outcome, found.log_class, found.rank) == ("infrastructure", "CRASH", 0)
    assert found.phase == "forward of step 2"


def test_verdict_says_where_and_how_much(tmp_path: Path) -> None:
    found = verdict(tmp_path, {"rank-0": CLOSED, "rank-12": OOM})
    assert (found.rank, found.requested_gib) == (12, 2.0)
    assert "CUDA out of memory" in found.evidence
    assert "recompute" in found.advice
