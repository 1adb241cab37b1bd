"""Runs and small campaigns for the tests of the advisor and of attribution."""

from __future__ import annotations

from typing import Any, Literal

from attune.catalog import load_cluster, load_model
from attune.experiment import Experiment, Inputs
from attune.experiment.events import Finished, Prediction
from attune.layout.space import Space
from attune.workload import Workload

PREDICTED = Prediction(step_s=10.0, low_s=9.0, high_s=11.0, peak_gib=50.0, p_fits=0.9)


def finished(run: int, layout: str, step_s: float | None, **changes: Any) -> Finished:
    fields = {
        "run": run,
        "purpose": "candidate",
        "layout": layout,
        "outcome": "completed" if step_s else "out_of_memory",
        "step_time_s": step_s,
        "step_time_cv_percent": 1.0,
        "tokens_per_s_per_gpu": 1000 / step_s if step_s else None,
        "gpu_hours": 1.0,
        "predicted": PREDICTED,
        "provenance": "measured",
    }
    return Finished.model_validate(fields | changes)


def begin(name: str, advisor: Literal["rules", "none", "llm"]) -> Experiment:
    """A campaign on a virtual cluster that leaves something to suppose."""
    return Experiment.create(
        Inputs(
            experiment=name,
            model=load_model("qwen3-30b-a3b"),
            cluster=load_cluster("h100", 16),
            workload=Workload(),
            space=Space(name="small", tp=(1, 2), pp=(1, 2, 4), vpp=(1, 2), ep=(4, 8, 16)),
            launcher="simulated",
            launcher_reason="asked for",
            advisor=advisor,
            trials=5,
            min_gain=0.0,
        )
    )
