"""Reads the log of Megatron-LM and Megatron-Bridge."""

from __future__ import annotations

import math
import re

from attune.trial.findings import Finding
from attune.trial.job import Job
from attune.trial.logs import Phase, Reading
from attune.trial.result import RankMemory, Step

_ITERATION = re.compile(r"\biteration\s+(\d+)/\s*\d+ \|")
_SECONDS = re.compile(r"elapsed time per iteration \(ms\):\s*([\d.]+)")
_NUMBER = r"([-+]?(?:[\d.]+(?:[Ee][-+]?\d+)?|nan|inf))"
_LOSS = re.compile(rf"\blm loss:\s*{_NUMBER}", re.IGNORECASE)
_GRAD_NORM = re.compile(rf"\bgrad norm:\s*{_NUMBER}", re.IGNORECASE)
_NAN = re.compile(r"number of nan iterations:\s*[1-9]")
_MEMORY = re.compile(
    r"\[Rank (\d+)\] \(after (\d+) iterations\) memory \(MB\) \|.*?\bmax allocated:\s*([\d.]+)"
    r".*?\bmax reserved:\s*([\d.]+)"
)
_BRIDGE_MEMORY = re.compile(
    r"\[Rank (\d+)\] \(after (\d+) iterations\) memory \(GB\) \|"
    r".*?mem-max-allocated-gigabytes:\s*([\d.]+).*?mem-max-reserved-gigabytes:\s*([\d.]+)"
)
_NEMO = re.compile(
    r"\biteration (\d+)/\d+ \|.*?reduced_train_loss: ([-+\w.]+)"
    r".*?train_step_timing in s: ([\d.]+)"
)
_FP32 = "using torch.float32 for parameters"
_MIB = 2.0**-10
_GB = 1e9 / 2**30
_PHASES = (
    ("using world size", "start"),
    ("> initialized tensor model parallel", "build"),
    ("> building ", "build"),
    ("building GPT model", "build"),
    ("loading checkpoint from", "build"),
    ("[before the start of training step]", "training"),
    ("training ...", "training"),
)


class MegatronReader:
    """`iteration N/ M | ...` of the last rank, and memory of the first data-parallel ranks.

    Iteration 1 is step 0. Megatron leaves a loss out of the line where it is not a number.
    """

    def __init__(self, job: Job | None = None) -> None:
        self._job = job

    def read(self, line: str) -> Reading | None:
        """What a line says; None for a line that is not Megatron's own."""
        if "iteration" in line:
            return read_iteration(line) or self.read_memory(line) or _read_nemo(line)
        if _FP32 in line and self._job and self._job.workload.precision != "fp32":
            # Without a flag for it Megatron trains in fp32, at another speed and size.
            return Finding(log_class="MISCONFIGURED", line=line[:400])
        return next((Phase(phase) for words, phase in _PHASES if words in line), None)

    def read_memory(self, line: str) -> RankMemory | None:
        """Peaks of one rank; with Megatron-Bridge in units of 10^9 bytes."""
        match, unit = _MEMORY.search(line), _MIB
        if match is None:
            match, unit = _BRIDGE_MEMORY.search(line), _GB
        if match is None:
            return None
        rank = int(match[1])
        return RankMemory(
            rank=rank,
            stage=stage_of(rank, self._job),
            allocated_gib=float(match[3]) * unit,
            reserved_gib=float(match[4]) * unit,
        )


def read_iteration(line: str) -> Step | None:
    """The step that a line of Megatron's training log reports; None for any other."""
    iteration, seconds = _ITERATION.search(line), _SECONDS.search(line)
    if iteration is None or seconds is None:
        return None
    loss, grad_norm = _LOSS.search(line), _GRAD_NORM.search(line)
    return Step(
        step=int(iteration[1]) - 1,
        seconds=float(seconds[1]) / 1000,
        loss=None if loss is None or _NAN.search(line) else _finite(loss[1]),
        grad_norm=None if grad_norm is None else float(grad_norm[1]),
    )


def _read_nemo(line: str) -> Step | None:
    """The step that a line of NeMo 2 reports; it counts from 0."""
    match = _NEMO.search(line)
    if match is None:
        return None
    return Step(step=int(match[1]), seconds=float(match[3]), loss=_finite(match[2]))


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def stage_of(rank: int, job: Job | None) -> int:
    """The pipeline stage of a rank: Megatron numbers pipeline ranks last."""
    return 0 if job is None else rank // max(job.cluster.count // max(job.layout.pp, 1), 1)
