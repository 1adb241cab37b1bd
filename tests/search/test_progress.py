"""Where a campaign stands, from its events, and the notes that follow."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from attune.experiment.events import Finished, Gain, Interrupted, Prediction, Proposed
from attune.layout import Layout, parse_layout
from attune.search.notes import gain_notes, knobs_changed
from attune.search.progress import Standing

PREDICTION = Prediction(step_s=1, low_s=0.8, high_s=1.2, peak_gib=50, p_fits=0.9)


def proposed(run: int, purpose: Any = "candidate", layout: str = "tp=1 pp=1") -> Proposed:
    return Proposed(run=run, purpose=purpose, layout=layout, why="", predicted=PREDICTION)


def finished(run: int, layout: str = "tp=1 pp=1", **changes: Any) -> Finished:
    fields: dict[str, Any] = {
        "run": run,
        "purpose": "candidate",
        "layout": layout,
        "outcome": "completed",
        "step_time_s": 1.0,
        "tokens_per_s_per_gpu": 100.0,
        "gpu_hours": 2.0,
        "predicted": PREDICTION,
        "provenance": "measured",
    }
    return Finished(**(fields | changes))


def test_run_numbers_are_used_once() -> None:
    standing = Standing([proposed(0), finished(0), proposed(1)])
    assert standing.next_run == 2
    assert standing.in_flight() == proposed(1)


def test_interrupted_runs_cost_and_are_settled() -> None:
    standing = Standing(
        [proposed(0), finished(0), proposed(1), Interrupted(run=1, layout="", gpu_hours=0.5)]
    )
    assert standing.gpu_hours == 2.5
    assert standing.in_flight() is None


def test_faults_of_the_machine_do_not_count_as_trials() -> None:
    standing = Standing(
        [finished(0), finished(1, outcome="infrastructure"), finished(2, outcome="out_of_memory")]
    )
    assert standing.candidates_tried == 2


def test_the_best_may_be_the_reference() -> None:
    slow = finished(1, step_time_s=2.0)
    reference = finished(0, purpose="reference", step_time_s=1.5)
    assert Standing([reference, slow]).best == reference


def test_a_rate_is_that_of_the_mean_step_of_all_runs_of_a_layout() -> None:
    runs = [
        finished(1, tokens_per_s_per_gpu=120.0, step_time_s=1.0),
        finished(2, tokens_per_s_per_gpu=80.0, step_time_s=1.5, purpose="confirmation"),
        finished(3, outcome="out_of_memory", tokens_per_s_per_gpu=None),
        finished(4, "tp=2 pp=1", tokens_per_s_per_gpu=300.0),
    ]
    assert Standing(runs).tokens_per_s_per_gpu("tp=1 pp=1") == 96.0
    assert Standing(runs).tokens_per_s_per_gpu("tp=8 pp=1") is None


def test_knobs_that_belong_together_count_once() -> None:
    before = parse_layout("tp=2 pp=4 recompute=full")
    after = parse_layout("tp=2 pp=4 first=3 last=5")
    assert knobs_changed(before, after) == ["PP", "recompute"]


def test_notes_name_the_runs_that_show_one_knob() -> None:
    winner = finished(4, "tp=2 pp=4", tokens_per_s_per_gpu=150.0)
    other = finished(2, "tp=2 pp=4 recompute=full", tokens_per_s_per_gpu=100.0)
    far = finished(3, "tp=8 pp=1 ep=4", tokens_per_s_per_gpu=90.0)
    gain = Gain(over="reference", layout="tp=8 pp=1", tokens_per_s_per_gpu=120.0, percent=25.0)
    notes = gain_notes(Standing([other, far, winner]), winner, [gain])
    assert notes[0].startswith("+25.0 % tokens/s/GPU over the reference")
    assert "recompute alone: +50.0 %" in notes[1] and "(runs 2 and 4)" in notes[1]
    assert len(notes) == 2


@pytest.mark.parametrize("field", [field.name for field in fields(Layout)])
def test_a_change_of_any_field_is_a_change_of_one_knob(field: str) -> None:
    before = Layout()
    after = replace(before, **{field: "other"})
    assert len(knobs_changed(before, after)) == 1
