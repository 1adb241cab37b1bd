"""Where and how a run that does not fit runs out of memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attune.layout.table import Floats
from attune.virtual.memory import Memory
from attune.virtual.performance import OutOfMemory, Phase


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """The first moment that exceeds the device."""

    stage: int
    phase: Phase
    steps: int
    """Steps completed before it."""


def find_failure(memory: Memory, limit_gib: float) -> Failure | None:
    """The first failure of the only layout of `memory`, or None.

    A run passes through these moments: the model is built; the first step's passes, still
    without optimizer moments; the first optimizer step, which allocates them; the second step.
    """
    built = memory.built[0] + memory.outside[0]
    passes = memory.live[0] + memory.transient[0] + memory.unused[0]
    moments = memory.moments[0]
    moments_of_run = (
        (0, "build", built),
        (0, "pass", built + passes),
        (0, "optimizer", built + moments + memory.update[0] + memory.unused[0]),
        (1, "pass", built + moments + passes),
    )
    for steps, phase, used in moments_of_run:
        stage = int(np.argmax(used))
        over = float(used[stage]) - limit_gib
        if over > 0:
            last = stage == len(used) - 1
            return Failure(stage=stage, phase=_phase(phase, last), steps=steps)
    return None


def _phase(moment: str, last: bool) -> Phase:
    """Stages before the last fill up in forward passes; the last one peaks in the backward."""
    if moment == "build":
        return "build"
    if moment == "optimizer":
        return "optimizer"
    return "backward" if last else "forward"


def describe(
    failure: Failure, memory: Memory, stage_ranks: int, random: np.random.Generator
) -> OutOfMemory:
    """The allocation that failed, on one rank of the failing stage."""
    requested = float(_request(failure, memory))
    # The run ends at the first request that does not fit: less than it is free.
    free = requested * float(random.uniform(0.05, 0.95))
    return OutOfMemory(
        rank=failure.stage * stage_ranks + int(random.integers(stage_ranks)),
        stage=failure.stage,
        phase=failure.phase,
        requested_gib=round(requested, 4),
        free_gib=round(free, 4),
    )


def _request(failure: Failure, memory: Memory) -> Floats:
    """The single buffer asked for: a whole gradient buffer, a moment, or routed tokens."""
    stage = failure.stage
    size: Floats = {
        "build": memory.built[0, stage] * 0.6,
        "optimizer": memory.moments[0, stage] / 24,
        "forward": memory.transient[0, stage] / 4,
        "backward": memory.transient[0, stage] / 5,
    }[failure.phase]
    floor: Floats = np.maximum(size, 2.0**-9)
    return floor
