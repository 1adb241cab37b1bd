"""What a virtual cluster answers: its truth over a table, and one run of one layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from attune.layout.table import Bools, Floats

Phase = Literal["build", "forward", "backward", "optimizer"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Truth:
    """Noise-free answers for n layouts."""

    step_s: Floats
    """[n] seconds of a step, whether it fits or not."""
    peak_gib: Floats
    """[n, P] peak memory of the device on each stage, GiB; 0 beyond a row's own PP."""
    fits: Bools
    """[n] whether every stage stays within the device."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OutOfMemory:
    """The allocation that failed."""

    rank: int
    stage: int
    phase: Phase
    requested_gib: float
    free_gib: float
    """Free on the device when it was asked; less than requested."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Performance:
    """One run: as many steps as completed, and the peaks until then."""

    step_times_s: tuple[float, ...]
    losses: tuple[float, ...]
    grad_norms: tuple[float, ...]
    allocated_gib: tuple[float, ...]
    """Peak of the allocator on each stage."""
    reserved_gib: tuple[float, ...]
    """Peak that the allocator held on each stage."""
    out_of_memory: OutOfMemory | None
