"""Replays a pipeline schedule, event by event, for many layouts at once."""

from __future__ import annotations

import numpy as np

from attune.layout.table import Floats
from attune.virtual.schedule import Plan, plan_schedule


def replay(plan: Plan, durations: Floats, delays: Floats) -> Floats:
    """When each pipeline rank ends its last pass.

    Args:
        plan: the schedule.
        durations: seconds of each pass, [2, vpp, pp, n], or [2, vpp, pp, microbatches, n] where
            microbatches differ.
        delays: seconds across each boundary (the last one wraps to rank 0), [pp, n].

    Returns:
        Seconds from the start of the step, [pp, n].
    """
    layouts = durations.shape[-1]
    each = durations.ndim == 5
    flat = durations.reshape(-1, layouts)
    waits = np.concatenate([delays, np.zeros((1, layouts))])
    ends = np.zeros((plan.operations + 1, layouts))
    clock = np.zeros((plan.pp, layouts))
    for level in plan.levels:
        arrival = ends[level.after] + waits[level.link]
        begin = np.maximum(clock[level.rank], arrival)
        finish = begin + flat[level.operation if each else level.cell]
        ends[level.operation] = finish
        clock[level.rank] = finish
    return clock


_ROWS = 256


def pipeline_ends(durations: Floats, delays: Floats, microbatches: int, whole: bool) -> Floats:
    """`replay`, whose microbatches beyond twelve to a rank follow the steady state.

    A 1F1B schedule of constant passes is linear in the number of microbatches once the slowest
    stage rules, so the ends at six and at twelve microbatches to a rank give all later ones.

    Args:
        durations: [2, vpp, pp, n] seconds.
        delays: [pp, n] seconds.
        microbatches: microbatches of the step.
        whole: replay every microbatch.

    Returns:
        Seconds from the start of the step, [pp, n].
    """
    _, vpp, pp, layouts = durations.shape
    if layouts > _ROWS:
        parts = [slice(i, i + _ROWS) for i in range(0, layouts, _ROWS)]
        ends = [
            pipeline_ends(durations[..., part], delays[:, part], microbatches, whole)
            for part in parts
        ]
        return np.concatenate(ends, axis=1)
    near, far = 6 * max(pp, 2), 12 * max(pp, 2)
    if whole or microbatches <= far:
        return replay(plan_schedule(pp, vpp, microbatches), durations, delays)
    first = replay(plan_schedule(pp, vpp, near), durations, delays)
    second = replay(plan_schedule(pp, vpp, far), durations, delays)
    if vpp > 1:
        microbatches = -(-microbatches // pp) * pp
    ends_last: Floats = second + (second - first) * ((microbatches - far) / (far - near))
    return ends_last
