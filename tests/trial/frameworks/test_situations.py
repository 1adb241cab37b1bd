"""Whole logs of situations that public reports describe, and how each must be judged."""

from __future__ import annotations

from pathlib import Path

import pytest
from trial_jobs import h200_job

from attune.trial.frameworks import load_framework
from attune.trial.logs import RunLog
from attune.trial.outcome import Stopped, Verdict, decide


def iteration(
    number: int, loss: float | None = 2.2, grad_norm: float = 1.0, ms: float = 5e3
) -> str:
    told = "" if loss is None else f" lm loss: {loss:.6E} |"
    return (
        f" [2026-01-01 00:00:{number:02d}.1] iteration {number:8d}/{20:8d} | consumed samples: 9 | "
        f"elapsed time per iteration (ms): {ms} | learning rate: 1.5E-04 | global batch size: 128 |"
        f"{told} loss scale: 1.0 | grad norm: {grad_norm} | number of skipped iterations: 0 | "
        f"number of nan iterations: {int(loss is None)} |"
    )


def oom(allocated: float, unallocated: float, asked: float = 2.0, total: float = 79.11) -> str:
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked:.2f} GiB. GPU 0 has "
        f"a total capacity of {total} GiB of which 1.04 GiB is free. Of the allocated memory "
        f"{allocated:.2f} GiB is allocated by PyTorch, and {unallocated:.2f} GiB is reserved by "
        "PyTorch but unallocated."
    )


STEPS = [iteration(n) for n in range(1, 4)]
ALL = [iteration(n) for n in range(1, 21)]
WATCHDOG = (
    "[rank6]:[E ProcessGroupNCCL.cpp:475] [Rank 6] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=9, OpType=_REDUCE_SCATTER_BASE, NumelIn=7098994688, Timeout(ms)=600000) ran "
    "for 600410 milliseconds before timing out."
)
TAIL = [
    "terminate called after throwing an instance of 'c10::DistBackendError'",
    "E1130 torch.distributed.elastic.multiprocessing.api failed (exitcode: -6) local_rank: 6",
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
]

SITUATIONS = {
    "free memory in fragments, 58.8 of 80 GB allocated": (
        [*STEPS, oom(58.8, 16.9), *TAIL],
        ("out_of_memory", "GPU_OOM_FRAGMENTATION"),
    ),
    "the card is full": ([*STEPS, oom(75.0, 0.5), *TAIL], ("out_of_memory", "GPU_OOM")),
    # https://github.com/NVIDIA/nccl/issues/1235
    "nothing left for NCCL": (
        [
            *STEPS,
            "H:7:9 [0] NCCL WARN Cuda failure 'out of memory'",
            "H:7:9 [0] NCCL WARN Failed to CUDA calloc 6291456 bytes",
            "torch.distributed.DistBackendError: NCCL error in: P, unhandled cuda error",
        ],
        ("out_of_memory", "GPU_OOM"),
    ),
    # https://github.com/THUDM/slime/issues/1136
    "memory grows until step 11": (
        [*(iteration(n) for n in range(1, 12)), oom(76.0, 0.2), *TAIL],
        ("out_of_memory", "GPU_OOM"),
    ),
    # https://github.com/volcengine/verl/issues/3453
    "the controller's node is full": (
        [
            *STEPS,
            "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on "
            "memory. Memory on the node (IP: H) was 250.04GB / 251.54GB (0.994)",
        ],
        ("host_out_of_memory", "HOST_OOM"),
    ),
    # https://github.com/hpcaitech/ColossalAI/issues/3677
    "killed by signal 9 without a word": (
        [*STEPS, "torch.distributed.elastic failed (exitcode: -9) local_rank: 0 (pid: 7)"],
        ("host_out_of_memory", "HOST_OOM"),
    ),
    "ended by the scheduler, as others see it": (
        [*STEPS, "  exitcode  : 143 (pid: 7)", "RuntimeError: Connection closed by peer"],
        ("infrastructure", "SECONDARY"),
    ),
    # https://github.com/NVIDIA/Megatron-LM/issues/935
    "a rank does not come": ([*STEPS, WATCHDOG, *TAIL], ("infrastructure", "NCCL_TIMEOUT")),
    "a rank does not come, as another ran out of memory": (
        [*STEPS, f"[rank2]: {oom(75.0, 0.5)}", WATCHDOG, *TAIL],
        ("out_of_memory", "GPU_OOM"),
    ),
    # https://github.com/deepseek-ai/DeepEP/issues/570
    "DeepEP times out, and what it left is touched": (
        [
            *STEPS,
            "DeepEP timeout check failed: rank = 6, thread = 0, value = 0)",
            "RuntimeError: DeepEP error: timeout (dispatch CPU)",
            "RuntimeError: CUDA error: an illegal memory access was encountered",
            *TAIL,
        ],
        ("infrastructure", "NCCL_TIMEOUT"),
    ),
    # https://github.com/NVIDIA/Megatron-LM/issues/1301
    "a kernel writes where it must not": (
        [*STEPS, "RuntimeError: CUDA error: an illegal memory access was encountered", *TAIL],
        ("infrastructure", "ILLEGAL_ACCESS"),
    ),
    # https://github.com/NVIDIA/Megatron-LM/issues/5026
    "a gradient is not a number": (
        [
            *STEPS,
            "[rank3]: RuntimeError: Unexpected result nan on rank 3 at iteration #3 invocation #2 "
            "(message='found NaN in local grad norm for bucket #0 in backward pass before "
            "data-parallel communication collective')",
            *TAIL,
        ],
        ("diverged", "NAN"),
    ),
    # https://github.com/THUDM/slime/issues/795
    "the gradient norm is none from the first step": (
        [iteration(n, 2.2, float("nan")) for n in range(1, 21)],
        ("diverged", "NAN"),
    ),
    # https://github.com/bigscience-workshop/bigscience train/tr11-176B-ml/chronicles.md
    "the loss leaps and comes back": (
        [iteration(n, 5.1 if n == 9 else 2.3, 960.0 if n == 9 else 1.0) for n in range(1, 21)],
        ("completed", None),
    ),
    # https://github.com/NVIDIA/Megatron-LM/issues/1000
    "fp32 by oversight": (
        ["using torch.float32 for parameters ...", *ALL],
        ("infrastructure", "MISCONFIGURED"),
    ),
    "warnings that name errors": (
        ["P/checkpoint.py:9: UserWarning: torch.utils.checkpoint: OutOfMemoryError ...", *ALL],
        ("completed", None),
    ),
    "a start of minutes": (
        ["time to initialize megatron (seconds): 190.7", "loading fused kernels", *ALL],
        ("completed", None),
    ),
    "a layout that Megatron refuses": (
        ["AssertionError: world size (12) is not divisible by total_model_size (8)", *TAIL[1:]],
        ("illegal_layout", "ILLEGAL_LAYOUT"),
    ),
}


def judged(
    lines: list[str], folder: Path, framework: str = "megatron-lm", stopped: Stopped | None = None
) -> Verdict:
    (folder / "node-0.log").write_text("\n".join(lines) + "\n")
    log = RunLog(load_framework(framework).reader(h200_job()))
    list(log.look([folder / "node-0.log"]))
    log.close()
    whole = len(log.steps) == 20
    return decide(log, steps_asked=20, exit_code=0 if whole else 1, stopped=stopped)


@pytest.mark.parametrize("name", SITUATIONS)
def test_situation(name: str, tmp_path: Path) -> None:
    lines, wanted = SITUATIONS[name]
    found = judged(lines, tmp_path)
    assert (found.outcome, found.log_class) == wanted, found.evidence


def test_fragmentation_names_its_cure(tmp_path: Path) -> None:
    assert "expandable_segments" in judged([oom(58.8, 16.9)], tmp_path).advice


# https://github.com/bigscience-workshop/bigscience train/tr11-176B-ml/chronicles.md
def test_no_line_for_ten_minutes_after_step_1(tmp_path: Path) -> None:
    found = judged(STEPS[:1], tmp_path, stopped="timed_out")
    assert (found.outcome, found.log_class) == ("timed_out", "HANG")


def test_where_it_failed(tmp_path: Path) -> None:
    found = judged([*STEPS, WATCHDOG], tmp_path)
    assert (found.rank, found.phase) == (6, "step 3")


def test_step_time_by_the_timer_of_the_training_phase(tmp_path: Path) -> None:
    """Where slime prints no `perf` line of a step: https://github.com/THUDM/slime/issues/1136"""
    mark = "(MegatronTrainRayActor pid=7) [2026-01-01 00:00:00] "
    lines = []
    for number in range(3):
        lines += [
            f"{mark}model.py:649 - step {number}: {{'train/loss': 0.01, 'train/grad_norm': 0.3}}",
            f"{mark}timer.py:40 - Timer actor_train end (elapsed: 81.3s)",
            f"{mark}timer.py:32 - Timer train_wait start",
        ]
    (tmp_path / "node-0.log").write_text("\n".join(lines) + "\n")
    log = RunLog(load_framework("slime").reader())
    assert [(s.step, s.seconds) for s in log.look([tmp_path / "node-0.log"])] == [
        (0, 81.3),
        (1, 81.3),
        (2, 81.3),
    ]


def test_a_line_of_nemo(tmp_path: Path) -> None:
    line = (
        "Training epoch 0, iteration 9/99 | lr: 1e-5 | global_batch_size: 128 | global_step: 9 | "
        "reduced_train_loss: 10.2 | train_step_timing in s: 46.84"
    )
    (tmp_path / "node-0.log").write_text(line + "\n")
    log = RunLog(load_framework("megatron-bridge").reader())
    (step,) = log.look([tmp_path / "node-0.log"])
    assert (step.step, step.loss, step.seconds) == (9, 10.2, 46.84)
