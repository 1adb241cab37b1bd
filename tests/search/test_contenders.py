"""Who may still win: second runs demote the lucky, refusals and failures take layouts out."""

from __future__ import annotations

from typing import Any

from attune.experiment.events import Event, Finished, Prediction, Verified
from attune.search.contenders import contenders
from attune.search.progress import Standing

PREDICTION = Prediction(step_s=1, low_s=0.8, high_s=1.2, peak_gib=50, p_fits=0.9)


def ran(run: int, layout: str, step_s: float | None, **changes: Any) -> Finished:
    fields: dict[str, Any] = {
        "run": run,
        "purpose": "candidate",
        "layout": layout,
        "outcome": "completed",
        "step_time_s": step_s,
        "gpu_hours": 1.0,
        "predicted": PREDICTION,
        "provenance": "measured",
    }
    return Finished(**(fields | changes))


def again(run: int, layout: str, step_s: float | None, **changes: Any) -> Finished:
    return ran(run, layout, step_s, purpose="confirmation", **changes)


def order(*events: Event) -> list[str]:
    return [contender.first.layout for contender in contenders(Standing(events))]


FIRST = (ran(1, "tp=1", 1.0), ran(2, "tp=2", 1.1), ran(3, "tp=4", 1.25))


def test_the_fastest_leads_and_the_reference_competes() -> None:
    assert order(*FIRST, ran(0, "tp=8", 0.9, purpose="reference")) == [
        "tp=8",
        "tp=1",
        "tp=2",
        "tp=4",
    ]


def test_a_second_run_within_noise_keeps_the_lead() -> None:
    assert order(*FIRST, again(4, "tp=1", 1.04))[0] == "tp=1"


def test_a_lucky_first_run_loses_the_lead_and_stays_a_contender() -> None:
    assert order(*FIRST, again(4, "tp=1", 1.3)) == ["tp=2", "tp=1", "tp=4"]


def test_a_lucky_first_run_does_not_beat_others_either() -> None:
    events = (*FIRST, again(4, "tp=1", 1.6), again(5, "tp=2", 1.24))
    assert order(*events) == ["tp=2", "tp=4", "tp=1"]


def test_a_failed_second_run_takes_a_layout_out_and_one_fault_of_the_machine_does_not() -> None:
    assert order(*FIRST, again(4, "tp=1", None, outcome="out_of_memory"))[0] == "tp=2"
    fault = again(4, "tp=1", None, outcome="infrastructure")
    assert order(*FIRST, fault)[0] == "tp=1"
    assert order(*FIRST, fault, fault.model_copy(update={"run": 5}))[0] == "tp=2"


def test_what_a_check_refused_is_out() -> None:
    refused = Verified(run=1, layout="tp=1", passed=False, checks=())
    assert order(*FIRST, refused) == ["tp=2", "tp=4"]


def test_a_layout_over_the_memory_that_may_be_used_is_no_contender() -> None:
    runs = (ran(1, "tp=1", 1.0, peak_gib=95.0), ran(2, "tp=2", 1.1, peak_gib=85.0))
    standing = Standing(runs, limit_gib=90.0)
    assert [c.first.layout for c in contenders(standing)] == ["tp=2"]
    assert standing.best == runs[1]
