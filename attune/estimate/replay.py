"""Event replay of the 1F1B and interleaved schedules: when each chunk pass of a step ends.

The order of passes on a stage is megatron-core's (`schedules.py`): warm-up of PP - p - 1
microbatches, or 2 (PP - p - 1) + (VPP - 1) PP chunk passes when interleaved, then forward and
backward in turn, then what is left. Times are arrays over layouts that share PP, VPP and the
number of microbatches, so the events are walked once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from attune.layout.table import Floats

Pass = tuple[int, int, int, bool]
"""Stage, chunk, microbatch, whether backward."""


def replay(forward: Floats, backward: Floats, transfer: Floats, microbatches: int) -> Floats:
    """[n] seconds from the first forward pass to the last backward pass.

    `forward` and `backward` [n, PP, VPP] seconds of one microbatch, `transfer` [n] seconds to a
    neighbouring stage. With VPP over 1, `microbatches` must be a multiple of PP.

    Raises:
        ValueError: no microbatch, or a number that interleaving cannot run.
    """
    total = np.zeros(len(forward))
    for _, _, end in timeline(forward, backward, transfer, microbatches):
        total = np.maximum(total, end)
    return total


def timeline(
    forward: Floats, backward: Floats, transfer: Floats, microbatches: int
) -> Iterator[tuple[Pass, Floats, Floats]]:
    """Every pass with [n] start and [n] end, seconds; each after those that it needs.

    Arguments and errors are those of `replay`.
    """
    rows, stages, chunks = forward.shape
    if microbatches < 1 or (chunks > 1 and microbatches % stages):
        raise ValueError(f"{microbatches} microbatches cannot run on {stages} x {chunks} stages")
    ends: dict[Pass, Floats] = {}
    free = [np.zeros(rows) for _ in range(stages)]
    for event in _order(stages, chunks, microbatches):
        stage, chunk, _, back = event
        start = free[stage]
        before = _needs(event, stages, chunks)
        if before is not None:
            there = ends[before] if before[0] == stage else ends[before] + transfer
            start = np.maximum(start, there)
        free[stage] = start + (backward if back else forward)[:, stage, chunk]
        ends[event] = free[stage]
        yield event, start, free[stage]


def _needs(event: Pass, stages: int, chunks: int) -> Pass | None:
    """The pass on another stage (or, at the head, the forward pass) whose result it takes."""
    stage, chunk, number, back = event
    if not back:
        if stage > 0:
            return stage - 1, chunk, number, False
        return (stages - 1, chunk - 1, number, False) if chunk > 0 else None
    if stage < stages - 1:
        return stage + 1, chunk, number, True
    return (0, chunk + 1, number, True) if chunk < chunks - 1 else (stage, chunk, number, False)


@lru_cache(maxsize=64)
def _order(stages: int, chunks: int, microbatches: int) -> tuple[Pass, ...]:
    """All passes in an order in which each comes after those that it needs."""
    waiting = [_of_stage(stage, stages, chunks, microbatches) for stage in range(stages)]
    place, done, order = [0] * stages, set[Pass](), list[Pass]()
    while len(order) < 2 * stages * chunks * microbatches:
        for stage in range(stages):
            while place[stage] < len(waiting[stage]):
                event = waiting[stage][place[stage]]
                before = _needs(event, stages, chunks)
                if before is not None and before not in done:
                    break
                done.add(event)
                order.append(event)
                place[stage] += 1
    return tuple(order)


def _of_stage(stage: int, stages: int, chunks: int, microbatches: int) -> list[Pass]:
    """Passes of one stage in megatron-core's order."""
    total = microbatches * chunks
    before = stages - stage - 1
    warm = min(before if chunks == 1 else 2 * before + (chunks - 1) * stages, total)
    passes = [_pass(stage, k, stages, chunks, False) for k in range(warm)]
    for k in range(warm, total):
        passes.append(_pass(stage, k, stages, chunks, False))
        passes.append(_pass(stage, k - warm, stages, chunks, True))
    return passes + [_pass(stage, k, stages, chunks, True) for k in range(total - warm, total)]


def _pass(stage: int, k: int, stages: int, chunks: int, back: bool) -> Pass:
    """Chunk pass k of a stage: microbatches go through each chunk in groups of PP."""
    group, rest = divmod(k, stages * chunks)
    chunk = rest // stages
    return stage, chunks - 1 - chunk if back else chunk, group * stages + rest % stages, back
