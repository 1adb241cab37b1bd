"""The parts of a played run: its lines, the fault it plays, and the performance it obeys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

FaultName = Literal["oom", "hang", "nan", "nccl_timeout", "host_oom", "crash", "illegal"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """What goes wrong, and at which step (from 0)."""

    name: FaultName
    step: int = 3
    message: str = "tp (3) does not divide heads (8): heads must be a multiple of tp"
    """What the framework says about an `illegal` layout."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One line of one rank's log."""

    rank: int
    text: str
    after_s: float = 0.0
    """Time since the line before it; infinite for a run that hangs."""
    exit_code: int | None = None
    """On the last line: how this rank ends, and the job with it."""


class OutOfMemory(Protocol):
    """Where and how a virtual rank runs out of memory."""

    @property
    def rank(self) -> int: ...
    @property
    def stage(self) -> int: ...
    @property
    def phase(self) -> str: ...
    @property
    def requested_gib(self) -> float: ...
    @property
    def free_gib(self) -> float: ...


class Performance(Protocol):
    """How the virtual cluster runs a layout."""

    @property
    def step_times_s(self) -> tuple[float, ...]: ...
    @property
    def losses(self) -> tuple[float, ...]: ...
    @property
    def grad_norms(self) -> tuple[float, ...]: ...
    @property
    def allocated_gib(self) -> tuple[float, ...]:
        """Peak of each stage."""

    @property
    def reserved_gib(self) -> tuple[float, ...]: ...
    @property
    def out_of_memory(self) -> OutOfMemory | None: ...
