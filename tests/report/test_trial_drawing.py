from __future__ import annotations

from pathlib import Path

from test_plan_drawing import LAYOUT, SUGGESTION

from attune.report.trial import TrialRun, draw_trial, step_line
from attune.trial.result import RankMemory, Step, TrialResult


def a_run(reason: str = "no H200 here", **changes) -> TrialRun:
    fields = {
        "outcome": "completed",
        "steps": tuple(Step(step=i, seconds=38.0, loss=3.0 - i / 20) for i in range(20)),
        "ranks": tuple(
            RankMemory(rank=r, stage=r // 8, allocated_gib=100.0, reserved_gib=100.0 + r)
            for r in range(32)
        ),
        "steps_asked": 20,
        "tokens_per_step": 8192 * 128,
        "gpus": 128,
        "wall_s": 900.0,
        "provenance": "measured",
        "hardware": "h200",
        "launcher": "local",
    }
    return TrialRun(
        layout=LAYOUT,
        directory=Path("trials/1"),
        launcher_reason=reason,
        result=TrialResult(**fields | changes),
        predicted=SUGGESTION,
    )


def test_measured_stands_beside_predicted(drawn):
    text = drawn(draw_trial, a_run())
    assert text.startswith("completed on h200, launcher local, measured")
    assert "measured" in text and "predicted" in text and "SIMULATED" not in text
    assert "3.0000 to 2.0500" in text and "20/20" in text and "119.0" in text
    assert "the 16 ranks with most memory of 32" in text and " 31 " in text


def test_simulated_run_says_so(drawn):
    run = a_run(provenance="predicted", launcher="simulated", hardware="virtual h200")
    text = drawn(draw_trial, run)
    assert "SIMULATED (no H200 here)" in text and "measured  " not in text


def test_failure_says_why_where_and_what_next(drawn):
    run = a_run(
        outcome="out_of_memory",
        steps=(),
        ranks=(),
        evidence="Tried to allocate [3 GiB]",
        advice="recompute more",
        rank=3,
        phase="backward",
        requested_gib=3.0,
    )
    text = drawn(draw_trial, run)
    assert "why: Tried to allocate [3 GiB]" in text
    assert "where: rank 3, backward, 3.0 GiB asked for" in text
    assert "advice: recompute more" in text and "0/20" in text


def test_step_line_tells_progress():
    assert step_line(Step(step=6, seconds=38.04, loss=2.5), 20) == "step 7/20: 38.0 s, loss 2.5000"
    assert "loss -" in step_line(Step(step=0, seconds=1.0), 20)
