"""The last lines of a played run that fails, as torch, NCCL and Linux write them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from attune.trial.job import Job
from attune.trial.result import Step
from attune.trial.stand_in.part import Fault, Line, OutOfMemory, Performance
from attune.trial.stand_in.voices import Failure, Voice

_NCCL_LIMIT_S = 600.0
"""Default limit of a collective (torch.distributed, NCCL backend)."""
_ECHO = (
    "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp, remote process "
    "exited or there was a network error; ncclRemoteError: a call failed, Connection closed by peer"
)
_WATCHDOG = (
    "[rank{rank}]:[E ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=412, OpType=_REDUCE_SCATTER_BASE, NumelIn=1048576, NumelOut=65536, "
    "Timeout(ms)=600000) ran for 600021 milliseconds before timing out."
)


def out_of_memory(job: Job, where: OutOfMemory, used_gib: float, voice: Voice) -> Iterator[Line]:
    """torch's own message on the failing rank, the framework's line, and a peer's echo."""
    rank, phase = int(where.rank), where.phase
    message = _allocator_message(job, where, used_gib)
    failure = Failure(
        rank=rank,
        stage=int(where.stage),
        phase=phase,
        step=None,
        kind="out_of_memory",
        message=message,
        requested_gib=float(where.requested_gib),
    )
    yield Line(rank=rank, text=f"[rank{rank}]: torch.OutOfMemoryError: {message}")
    yield Line(rank=rank, text=voice.failure(failure))
    peer = (rank + 1) % job.cluster.count
    yield Line(rank=peer, text=voice.echo(peer, _ECHO))
    yield Line(rank=rank, text="", exit_code=1)


def _allocator_message(job: Job, where: OutOfMemory, used_gib: float) -> str:
    """c10/cuda/CUDACachingAllocator.cpp, torch 2.5 and later."""
    total, free = job.cluster.gpu.memory_gib, float(where.free_gib)
    held = min(used_gib, total - free)
    return (
        f"CUDA out of memory. Tried to allocate {where.requested_gib:.2f} GiB. "
        f"GPU {where.rank % job.cluster.per_node} has a total capacity of {total:.2f} GiB "
        f"of which {free:.2f} GiB is free. Including non-PyTorch memory, this process has "
        f"{total - free:.2f} GiB memory in use. Of the allocated memory {held:.2f} GiB is "
        f"allocated by PyTorch, and {0.02 * held:.2f} GiB is reserved by PyTorch but unallocated. "
        "If reserved but unallocated memory is large try setting "
        "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
    )


def play_fault(job: Job, performance: Performance, voice: Voice, fault: Fault) -> Iterator[Line]:
    """The lines of a fault that the caller asked for."""
    if fault.name == "oom":
        where = performance.out_of_memory or _Asked()
        yield from out_of_memory(job, where, performance.allocated_gib[where.stage], voice)
    else:
        yield from _FAULTS[fault.name](job, voice, fault)


class _Asked:
    """An out of memory that nothing but the caller's wish explains."""

    rank, stage, phase, requested_gib, free_gib = 0, 0, "forward", 2.0, 1.25


def _hang(job: Job, voice: Voice, fault: Fault) -> Iterator[Line]:
    yield Line(rank=0, text="", after_s=math.inf)


def _nan(job: Job, voice: Voice, fault: Fault) -> Iterator[Line]:
    rank = (job.layout.pp - 1) * (job.cluster.count // job.layout.pp)
    step = Step(step=fault.step, seconds=1.0, loss=math.nan, grad_norm=math.nan)
    yield Line(rank=rank, text=voice.step(step, job.workload.steps), after_s=1.0)
    yield from _failure(job, voice, fault, "diverged", f"found NaN in local grad norm, rank {rank}")


def _nccl_timeout(job: Job, voice: Voice, fault: Fault) -> Iterator[Line]:
    yield Line(rank=0, text=_WATCHDOG.format(rank=0), after_s=_NCCL_LIMIT_S)
    yield Line(rank=0, text="terminate called after throwing c10::DistBackendError", exit_code=-6)


def _host_oom(job: Job, voice: Voice, fault: Fault) -> Iterator[Line]:
    yield Line(rank=0, text="", exit_code=-9)


def _crash(job: Job, voice: Voice, fault: Fault) -> Iterator[Line]:
    yield from _failure(job, voice, fault, "exception", "RuntimeError: the stand-in was told to")


def reject(job: Job, voice: Voice, message: str) -> Iterator[Line]:
    """The framework's assertion on a layout, before the model is built."""
    failure = Failure(
        rank=0,
        stage=0,
        phase="start",
        step=None,
        kind="illegal_layout",
        message=f"AssertionError: {message}",
    )
    yield Line(rank=0, text=voice.failure(failure))
    yield Line(rank=0, text="", exit_code=1)


def _failure(job: Job, voice: Voice, fault: Fault, kind: str, message: str) -> Iterator[Line]:
    failure = Failure(rank=0, stage=0, phase="forward", step=fault.step, kind=kind, message=message)
    yield Line(rank=0, text=voice.failure(failure))
    yield Line(rank=0, text="", exit_code=1)


_FAULTS: dict[str, Callable[[Job, Voice, Fault], Iterator[Line]]] = {
    "hang": _hang,
    "nan": _nan,
    "nccl_timeout": _nccl_timeout,
    "host_oom": _host_oom,
    "crash": _crash,
}
