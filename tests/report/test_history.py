from __future__ import annotations

from campaign_events import REFERENCE, WINNER, campaign, started

from attune.experiment.events import Interrupted
from attune.report.history import history_of


def test_best_and_baseline_are_found():
    history = history_of(campaign())
    assert history.best.layout == WINNER
    assert history.baseline.layout == REFERENCE
    assert history.candidates == 2
    assert history.gpu_hours == 90.0
    assert history.reason(2) == "reason 2"


def test_state_follows_the_events():
    events = campaign()
    assert history_of(events[:1]).state == "unfinished"
    assert history_of(events[:-1]).state == "searched"
    assert history_of(events).state == "failed"
    mended = events[-1].model_copy(update={"problem": ""})
    assert history_of([*events[:-1], mended]).state == "done"


def test_run_in_flight_is_known_until_it_ends():
    events = campaign()
    flying = history_of(events[:11])
    assert flying.running.run == 2 and flying.progress.step == 6
    assert history_of(events[:12]).running is None
    cut = history_of([*events[:11], Interrupted(run=2, layout=WINNER, gpu_hours=1.5)])
    assert cut.running is None and cut.gpu_hours == 61.5


def test_resuming_reopens_a_history():
    history = history_of([*campaign(), started(resumed=True)])
    assert history.completed is None and len(history.runs) == 3
