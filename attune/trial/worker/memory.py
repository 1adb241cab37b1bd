"""Peak memory of this rank, and on CPU the limit that makes running out of it real."""

from __future__ import annotations

import ctypes
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from attune.trial.result import RankMemory

_GIB = 2**30
_THREAD_STACK_BYTES = 512 * 1024


def small_thread_stacks() -> None:
    """Threads started from now on take 512 KiB of stack: 8 MiB each would fill the limit."""
    attributes = ctypes.create_string_buffer(256)
    library = ctypes.CDLL(None)
    library.pthread_attr_init(attributes)
    library.pthread_attr_setstacksize(attributes, ctypes.c_size_t(_THREAD_STACK_BYTES))
    library.pthread_setattr_default_np(attributes)


def status_bytes(field: Literal["RssAnon", "RssFile", "VmHWM", "VmData"]) -> int:
    """A size from /proc/self/status, bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    raise OSError(f"/proc/self/status has no {field}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Baseline:
    """What the process held before the model: interpreter, libraries, process groups."""

    anonymous_bytes: int
    """Resident memory that no file backs: libraries are read in page by page as they are used."""

    @classmethod
    def here(cls) -> Baseline:
        """The baseline now; forgets the peaks of imports."""
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        else:
            _forget_resident_peak()
        return cls(anonymous_bytes=status_bytes("RssAnon"))

    def peak(self, rank: int, stage: int) -> RankMemory:
        """Peak memory since the baseline; on CPU the resident high-water mark, file pages aside."""
        host_gib = status_bytes("VmHWM") / _GIB
        if torch.cuda.is_available():
            allocated = torch.cuda.max_memory_allocated() / _GIB
            reserved = torch.cuda.max_memory_reserved() / _GIB
        else:
            anonymous_peak = status_bytes("VmHWM") - status_bytes("RssFile")
            allocated = reserved = max(anonymous_peak - self.anonymous_bytes, 0) / _GIB
        return RankMemory(
            rank=rank,
            stage=stage,
            allocated_gib=allocated,
            reserved_gib=reserved,
            host_gib=host_gib,
        )


def _forget_resident_peak() -> None:
    # proc(5): writing 5 resets VmHWM to the present VmRSS. Where it is not allowed, the peak of
    # imports stays, which is near the baseline.
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return


def limit_data(memory_gib: float) -> None:
    """Lets the process take `memory_gib` beyond what it holds now; allocations then fail."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = status_bytes("VmData") + int(memory_gib * _GIB)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


def lift_limit() -> None:
    """Takes the limit away, so that a failure can be told."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
