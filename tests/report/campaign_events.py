"""A small campaign, event by event, for the tests of its drawing."""

from __future__ import annotations

from typing import Any

from attune.experiment.events import (
    CheckResult,
    Completed,
    Enumerated,
    Event,
    Finished,
    Gain,
    Prediction,
    Progress,
    Proposed,
    ReferenceChosen,
    Started,
    Stopped,
    Verified,
)

REFERENCE = "tp=8 pp=8 ep=16 recompute=full"
WINNER = "tp=4 pp=16 ep=8 first=5 last=3"
PREDICTED = Prediction(step_s=40.0, low_s=34.0, high_s=46.0, peak_gib=118.2, p_fits=0.93)


def started(**changes: Any) -> Started:
    """The first event; on a virtual cluster unless told otherwise."""
    fields: dict[str, Any] = {
        "experiment": "exp-1",
        "model": "GLM-4.5",
        "gpu": "H200",
        "count": 128,
        "launcher": "simulated",
        "launcher_reason": "no H200 and no scheduler here",
        "provenance": "predicted",
        "workload": "8192 x 128, bf16",
        "trials": 3,
        "gpu_hours": None,
        "seed": 1,
    }
    return Started(**fields | changes)


def finished(run: int, layout: str, **changes: Any) -> Finished:
    """A run that completed, unless told otherwise."""
    fields: dict[str, Any] = {
        "run": run,
        "purpose": "candidate",
        "layout": layout,
        "outcome": "completed",
        "step_time_s": 38.0,
        "step_time_cv_percent": 1.2,
        "tokens_per_s_per_gpu": 215.6,
        "peak_gib": 121.5,
        "gpu_hours": 30.0,
        "predicted": PREDICTED,
        "provenance": "predicted",
    }
    return Finished(**fields | changes)


def proposed(run: int, layout: str, purpose: str = "candidate") -> Proposed:
    return Proposed(
        run=run, purpose=purpose, layout=layout, why=f"reason {run}", predicted=PREDICTED
    )


def campaign() -> list[Event]:
    """Reference, a candidate that ran out of memory, the winner; verified and completed."""
    slow = {"purpose": "reference", "step_time_s": 50.0, "tokens_per_s_per_gpu": 163.8}
    failed = {
        "outcome": "out_of_memory",
        "log_class": "GPU_OOM",
        "evidence": "Tried to allocate 3.10 GiB",
        "advice": "recompute more, or offload",
        "step_time_s": None,
        "step_time_cv_percent": None,
        "tokens_per_s_per_gpu": None,
        "peak_gib": None,
    }
    return [
        started(),
        Enumerated(
            space="moe",
            drawn=100_000,
            legal=9_000,
            fitting=700,
            candidates=1_200,
            cut={"grid.divides": 80_000, "ep.experts_divide": 11_000},
        ),
        ReferenceChosen(layout=REFERENCE, source="rule of thumb"),
        proposed(0, REFERENCE, "reference"),
        Progress(run=0, step=0, steps=20, seconds=50.1, loss=2.5),
        Progress(run=0, step=19, steps=20, seconds=50.0, loss=2.1),
        finished(0, REFERENCE, **slow),
        proposed(1, "tp=2 pp=8"),
        finished(1, "tp=2 pp=8", **failed),
        proposed(2, WINNER),
        Progress(run=2, step=6, steps=20, seconds=38.1, loss=2.4),
        finished(2, WINNER, best=True),
        Stopped(reason="budget of 3 trials is spent"),
        Verified(
            run=2,
            layout=WINNER,
            passed=False,
            checks=(
                CheckResult(name="complete", status="passed"),
                CheckResult(name="layout_bound", status="failed", detail="4 % off at step 20"),
            ),
        ),
        Completed(
            winner=WINNER,
            winner_run=2,
            tokens_per_s_per_gpu=215.6,
            step_time_s=38.0,
            peak_gib=121.5,
            usd_per_million_tokens=10.2,
            mfu=0.043,
            status="predicted",
            gains=(
                Gain(over="reference", layout=REFERENCE, tokens_per_s_per_gpu=163.8, percent=31.6),
                Gain(
                    over="estimator's first choice",
                    layout="tp=2 pp=8",
                    tokens_per_s_per_gpu=None,
                    percent=None,
                ),
            ),
            recipe="recipe.yaml",
            gpu_hours=90.0,
            problem="layout_bound failed",
        ),
    ]
