"""What nothing else beats in both of two things."""

from __future__ import annotations

from itertools import product

from attune.experiment.events import Finished, Prediction
from attune.search.front import memory_front, not_beaten

PREDICTION = Prediction(step_s=1, low_s=0.8, high_s=1.2, peak_gib=50, p_fits=0.9)


def ran(run: int, rate: float | None, peak: float | None, **changes: object) -> Finished:
    fields: dict[str, object] = {
        "run": run,
        "purpose": "candidate",
        "layout": f"tp={run}",
        "outcome": "completed",
        "tokens_per_s_per_gpu": rate,
        "peak_gib": peak,
        "gpu_hours": 1.0,
        "predicted": PREDICTION,
        "provenance": "measured",
    }
    return Finished.model_validate(fields | changes)


def test_front_of_all_pairs_is_what_the_definition_says() -> None:
    points = [(float(a), float(b)) for a, b in product((1, 2, 3), (5, 4, 9))] + [(2.0, 9.0)]
    kept = {points[i] for i in not_beaten(points)}
    assert kept == {
        p for p in points if not any(q != p and q[0] >= p[0] and q[1] >= p[1] for q in points)
    }
    assert len(not_beaten(points)) == len(kept)
    assert not_beaten([]) == []


def test_memory_front_leaves_out_what_failed_or_ran_again() -> None:
    runs = [
        ran(1, 100, 90.0),
        ran(2, 90, 60.0),
        ran(3, 80, 70.0),
        ran(4, 110, 120.0, purpose="confirmation"),
        ran(5, None, None, outcome="out_of_memory"),
        ran(6, 95, None),
    ]
    assert [run.run for run in memory_front(runs)] == [1, 2]
