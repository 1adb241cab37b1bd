"""How Megatron-LM and Megatron-Bridge log what a played run does."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from attune.trial.job import Job
from attune.trial.result import RankMemory, Step

if TYPE_CHECKING:
    from attune.trial.stand_in.voices import Failure

_FRAMES = {
    "start": ("megatron/training/arguments.py", "validate_args"),
    "build": ("megatron/training/training.py", "get_model"),
    "forward": ("megatron/core/pipeline_parallel/schedules.py", "forward_step"),
    "backward": ("megatron/core/pipeline_parallel/schedules.py", "backward_step"),
    "optimizer": ("megatron/core/optimizer/optimizer.py", "step_with_ready_grads"),
}
_KINDS = {"out_of_memory": "torch.OutOfMemoryError", "diverged": "RuntimeError"}
_CLOCK = "[2026-01-01 00:00:00.000000]"
"""A played run has no calendar; its lines have one time, as times that differ would decide."""


class MegatronVoice:
    """`iteration N/ M | ...` of the last rank, and Python's traceback on the ranks that fail."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def begin(self, rank: int, after_s: float) -> str:
        """Training starts."""
        return f"training ...\n[before the start of training step] datetime: after {after_s:.0f} s"

    def step(self, step: Step, steps: int) -> str:
        """A loss that is not a number is left out, as Megatron does."""
        batch = self._job.workload.global_batch
        loss = step.loss if step.loss is not None and math.isfinite(step.loss) else None
        told = "" if loss is None else f" lm loss: {loss:.6E} |"
        return (
            f" {_CLOCK} iteration {step.step + 1:8d}/{steps:8d} | consumed samples: "
            f"{(step.step + 1) * batch:12d} | elapsed time per iteration (ms): "
            f"{step.seconds * 1000:.4f} | learning rate: 1.000000E-05 | global batch size: "
            f"{batch:5d} |{told} loss scale: 1.0 | grad norm: {step.grad_norm:.4f} | "
            f"number of skipped iterations:   0 | number of nan iterations:   {int(loss is None)} |"
        )

    def memory(self, memory: RankMemory) -> str:
        """Printed after the second iteration, in MiB."""
        allocated, reserved = memory.allocated_gib * 1024, memory.reserved_gib * 1024
        return (
            f"[Rank {memory.rank}] (after 2 iterations) memory (MB) | allocated: "
            f"{0.9 * allocated:.2f} | max allocated: {allocated:.5f} | reserved: {reserved:.2f} | "
            f"max reserved: {reserved:.5f}"
        )

    def failure(self, failure: Failure) -> str:
        """A traceback, every line with torch's own mark of the rank."""
        mark = f"[rank{failure.rank}]: "
        path, function = _FRAMES.get(failure.phase, _FRAMES["forward"])
        kind = _KINDS.get(failure.kind)
        message = f"{kind}: {failure.message}" if kind else failure.message
        lines = [
            "Traceback (most recent call last):",
            '  File "pretrain_gpt.py", line 301, in <module>',
            f'  File "{path}", line 400, in {function}',
            message,
        ]
        return "\n".join(mark + line for line in lines)

    def echo(self, rank: int, message: str) -> str:
        """A rank stops because a peer did."""
        return f"[rank{rank}]: {message}"


class BridgeVoice(MegatronVoice):
    """As Megatron-LM, with memory in units of 10^9 bytes and a line of rank 0 for each step."""

    def step(self, step: Step, steps: int) -> str:
        """The iteration, after rank 0's own line of it."""
        first = f"Step Time : {step.seconds:.2f}s GPU utilization: 276.0MODEL_TFLOP/s/GPU"
        return f"{first}\n{super().step(step, steps)}"

    def memory(self, memory: RankMemory) -> str:
        """Printed after the second iteration."""
        allocated, reserved = (
            gib * 2**30 / 1e9 for gib in (memory.allocated_gib, memory.reserved_gib)
        )
        return (
            f"[Rank {memory.rank}] (after 2 iterations) memory (GB) | mem-allocated-gigabytes: "
            f"{0.9 * allocated:.5g} | mem-max-allocated-gigabytes: {allocated:.7g} | "
            f"mem-reserved-gigabytes: {reserved:.5g} | mem-max-reserved-gigabytes: {reserved:.7g}"
        )
