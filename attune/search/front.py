"""Pareto fronts: what nothing else beats in both of two things."""

from __future__ import annotations

from collections.abc import Sequence

from attune.experiment.events import Finished


def not_beaten(points: Sequence[tuple[float, float]]) -> list[int]:
    """Places of the points that no other matches in both numbers and beats in one.

    More is better in both; of equal points the first stays. In order of the first number, the
    largest first.
    """
    order = sorted(range(len(points)), key=lambda i: (-points[i][0], -points[i][1], i))
    kept: list[int] = []
    for i in order:
        if not kept or points[i][1] > points[kept[-1]][1]:
            kept.append(i)
    return kept


def memory_front(runs: Sequence[Finished]) -> list[Finished]:
    """Completed runs that none beats in both throughput and memory, the fastest first."""
    known = [
        (run, run.tokens_per_s_per_gpu, run.peak_gib)
        for run in runs
        if run.outcome == "completed" and run.purpose != "confirmation"
    ]
    full = [(run, rate, peak) for run, rate, peak in known if rate and peak is not None]
    return [full[i][0] for i in not_beaten([(rate, -peak) for _, rate, peak in full])]
