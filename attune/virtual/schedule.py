"""Which pass runs when on each pipeline rank: 1F1B and its interleaved form.

Orders follow Megatron's `schedules.py`: warm-up forwards, one forward and one backward in
turn, cool-down backwards; with interleaving, microbatches go in groups of PP through each
chunk in turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from attune.layout.table import Ints

FORWARD, BACKWARD = 0, 1
Pass = tuple[int, int, int]
"""Direction, chunk, microbatch."""


def rank_order(pp: int, vpp: int, microbatches: int, rank: int) -> list[Pass]:
    """The passes of one pipeline rank in the order in which it runs them.

    Args:
        pp: pipeline ranks.
        vpp: chunks per rank; over 1, `microbatches` must be a multiple of `pp`.
        microbatches: microbatches of the step.
        rank: the pipeline rank.
    """
    total = microbatches * vpp
    if vpp == 1:
        warm_up = min(pp - rank - 1, total)
    else:
        warm_up = min(2 * (pp - rank - 1) + (vpp - 1) * pp, total)
    forwards = [(FORWARD, *_place(i, pp, vpp)) for i in range(total)]
    backwards = [(BACKWARD, vpp - 1 - c, m) for _, c, m in forwards]
    order = forwards[:warm_up]
    for i in range(total - warm_up):
        order += [forwards[warm_up + i], backwards[i]]
    return order + backwards[total - warm_up :]


def _place(index: int, pp: int, vpp: int) -> tuple[int, int]:
    """Chunk and microbatch of the `index`-th forward."""
    if vpp == 1:
        return 0, index
    group, inside = divmod(index, pp * vpp)
    chunk, member = divmod(inside, pp)
    return chunk, group * pp + member


@dataclass(frozen=True, kw_only=True, slots=True)
class Level:
    """Passes of distinct ranks whose inputs were all made in earlier levels, each [k]."""

    rank: Ints
    cell: Ints
    """Index into [direction, chunk, rank]."""
    operation: Ints
    """Index into [direction, chunk, rank, microbatch]."""
    after: Ints
    """Operation whose output this one needs; the number of operations for none."""
    link: Ints
    """Boundary that the input crosses: r between ranks r and r + 1 (PP - 1 wraps), PP for none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A schedule as levels, ready to replay for many layouts at once."""

    pp: int
    vpp: int
    microbatches: int
    levels: tuple[Level, ...]
    live: tuple[Ints, ...]
    """For each rank, the undominated counts of live passes by chunk, [u, vpp]."""

    @property
    def operations(self) -> int:
        """Number of passes of the whole step."""
        return 2 * self.vpp * self.pp * self.microbatches


@lru_cache(maxsize=512)
def plan_schedule(pp: int, vpp: int, microbatches: int) -> Plan:
    """The plan of a schedule; with interleaving, microbatches are rounded up to whole groups."""
    if vpp > 1:
        microbatches = -(-microbatches // pp) * pp
    orders = [rank_order(pp, vpp, microbatches, rank) for rank in range(pp)]
    return Plan(
        pp=pp,
        vpp=vpp,
        microbatches=microbatches,
        levels=_levels(orders, pp, vpp, microbatches),
        live=tuple(_live(order, vpp) for order in orders),
    )


def _levels(orders: list[list[Pass]], pp: int, vpp: int, microbatches: int) -> tuple[Level, ...]:
    total = 2 * vpp * pp * microbatches
    done = [False] * total + [True]
    position = [0] * pp
    levels: list[Level] = []
    while True:
        rows = []
        for rank, order in enumerate(orders):
            if position[rank] == len(order):
                continue
            row = _operation(order[position[rank]], rank, pp, vpp, microbatches, total)
            if done[row[3]]:
                rows.append(row)
        if not rows:
            return tuple(levels)
        for row in rows:
            done[row[2]] = True
            position[row[0]] += 1
        levels.append(Level(**dict(zip(Level.__slots__, np.array(rows).T.copy(), strict=True))))


def _operation(
    step: Pass, rank: int, pp: int, vpp: int, microbatches: int, total: int
) -> tuple[int, int, int, int, int]:
    direction, chunk, microbatch = step
    cell = (direction * vpp + chunk) * pp + rank
    after, link = total, pp
    if direction == FORWARD and (rank or chunk):
        source, depth = (rank - 1, chunk) if rank else (pp - 1, chunk - 1)
        after, link = (depth * pp + source) * microbatches + microbatch, source
    elif direction == BACKWARD and (rank, chunk) != (pp - 1, vpp - 1):
        source, depth = (rank + 1, chunk) if rank < pp - 1 else (0, chunk + 1)
        after, link = ((vpp + depth) * pp + source) * microbatches + microbatch, rank
    return rank, cell, cell * microbatches + microbatch, after, link


def _live(order: list[Pass], vpp: int) -> Ints:
    """Counts of passes whose activations live, at the moments that no other moment exceeds."""
    steps = np.zeros((len(order), vpp), dtype=np.int64)
    for index, (direction, chunk, _) in enumerate(order):
        steps[index, chunk] = 1 if direction == FORWARD else -1
    counts = np.unique(np.cumsum(steps, axis=0), axis=0)
    at_most = (counts[:, None, :] <= counts[None, :, :]).all(axis=2)
    dominated = at_most.sum(axis=1) > 1
    kept: Ints = counts[~dominated]
    return kept
