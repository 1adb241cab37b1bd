"""What an exception means: out of memory, the echo of a peer's failure, or something else."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attune.errors import LayoutError
from attune.trial.worker.log import ErrorKind, Phase

_OUT_OF_MEMORY = re.compile(
    r"DefaultCPUAllocator: (?:can't allocate|not enough) memory"
    r"|CUDA out of memory|CUDA error: out of memory"
    r"|std::bad_alloc|Cannot allocate memory|Unable to allocate|not enough memory"
    # Under the limit a thread has no room for its stack.
    r"|can't start new thread|Resource temporarily unavailable|pthread_create"
    # oneDNN's words where a scratchpad does not fit.
    r"|could not create a (?:memory|primitive)"
)
_BYTES = re.compile(r"tried to allocate (\d+) bytes|Buy new RAM!.*?(\d+) bytes", re.IGNORECASE)
_UNITS = re.compile(r"(?:Tried|Unable) to allocate ([\d.]+) ([KMGT]?)i?B")
_ECHO = re.compile(
    r"Connection (?:closed|reset) by peer|Broken pipe|Connection refused"
    r"|Application timeout caused pair closure|ncclRemoteError|Socket Timeout"
)
_BACKWARD = frozenset({"backward_step", "finalize_model_grads"})


class DivergenceError(Exception):
    """Loss or gradient norm is not a finite number."""


def is_echo(error: BaseException) -> bool:
    """Whether this rank failed only because a peer went away."""
    return bool(_ECHO.search(str(error)))


def kind_of(error: BaseException, phase: Phase) -> ErrorKind:
    """The class of an error that this rank met by itself."""
    if is_out_of_memory(error):
        return "out_of_memory"
    if isinstance(error, DivergenceError):
        return "diverged"
    if isinstance(error, LayoutError):
        return "illegal_layout"
    # Megatron says no to a layout by an assertion or a ValueError while it builds.
    if phase in ("start", "build") and isinstance(error, AssertionError | ValueError):
        return "illegal_layout"
    return "exception"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, in whatever words."""
    return isinstance(error, MemoryError) or bool(_OUT_OF_MEMORY.search(str(error)))


def requested_bytes(error: BaseException) -> int | None:
    """What the failed allocation asked for, where the message says so."""
    text = str(error)
    if match := _BYTES.search(text):
        return int(match[1] or match[2])
    if match := _UNITS.search(text):
        return int(float(match[1]) * 1024 ** " KMGT".index(match[2] or " "))
    return None


def phase_of(error: BaseException, phase: Phase) -> Phase:
    """The phase that the traceback shows: the schedules mix forward and backward passes."""
    if phase == "forward" and _BACKWARD.intersection(_function_names(error)):
        return "backward"
    return phase


def _function_names(error: BaseException) -> Iterator[str]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame.f_code.co_name
        trace = trace.tb_next


def describe(error: BaseException) -> str:
    """Class and message, without the C++ stack that torch may append."""
    message = str(error).partition("Exception raised from")[0].strip()
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
