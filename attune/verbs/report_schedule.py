"""Replays the pipeline schedule of a layout for its chart."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attune.estimate.passes import PassTimes, estimate_passes
from attune.estimate.replay import timeline
from attune.layout import Layout
from attune.report.arms import Schedule, SchedulePass
from attune.verbs.target import Target

_MOST_DRAWN = 1_500
"""Passes of one arm on the page: 30 bytes each, so that two arms stay within 100 KB."""
_MOST_REPLAYED = 60_000
"""Passes that are counted: a second's work."""


def schedule_of(target: Target, layout: Layout) -> Schedule | None:
    """The layout's schedule as predicted; None without a pipeline, or where it cannot run."""
    if layout.pp == 1:
        return None
    times = estimate_passes(target.model, target.cluster, target.workload, layout)
    counted = _fitting(times, _MOST_REPLAYED)
    if not counted:
        return None
    passes = list(_passes(times, counted))
    drawn = _fitting(times, _MOST_DRAWN) or counted
    shown = passes if drawn == counted else list(_passes(times, drawn))
    busy = np.zeros(layout.pp)
    for done in passes:
        busy[done.stage] += done.end_s - done.start_s
    return Schedule(
        drawn=tuple(sorted(shown, key=lambda done: done.start_s)[:_MOST_DRAWN]),
        drawn_microbatches=drawn,
        drawn_of=len(shown),
        microbatches=times.microbatches,
        busy_s=tuple(busy.tolist()),
        total_s=max(done.end_s for done in passes),
    )


def _fitting(times: PassTimes, most: int) -> int:
    """Microbatches whose passes are at most that many; at least as many as fill the pipeline."""
    stages, chunks = times.forward.shape
    group = stages if chunks > 1 else 1
    whole = times.microbatches // group * group
    fits = most // (2 * stages * chunks * group) * group
    return min(whole, max(fits, stages))


def _passes(times: PassTimes, microbatches: int) -> Iterator[SchedulePass]:
    forward, backward = times.forward[None], times.backward[None]
    transfer = np.array([times.transfer_s])
    for (stage, _, _, back), start, end in timeline(forward, backward, transfer, microbatches):
        yield SchedulePass(stage=stage, backward=back, start_s=float(start[0]), end_s=float(end[0]))
