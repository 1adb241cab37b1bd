"""The advisor: what it sees, what it supposes, and how a trial judges it."""

from __future__ import annotations

from pathlib import Path

import pytest
from advisor_runs import begin, finished

from attune.estimate.step_time import TIME_PARTS
from attune.experiment.events import Advised, Finished, Hypothesis, Judged, Proposed
from attune.layout import LayoutTable, parse_layout
from attune.search.advisor_knobs import knob_words, one_knob_away
from attune.search.advisor_rules import RULES, Observed, diagnose
from attune.search.advisor_verdicts import judge, judgements
from attune.search.campaign import run_campaign
from attune.search.notes import KNOBS, knobs_changed
from attune.search.progress import Standing


def observed(layout: str = "tp=2 pp=4 ep=8", **changes: object) -> Observed:
    shares = dict.fromkeys(TIME_PARTS, 0.0) | {"compute": 1.0}
    shares |= changes.pop("shares", {})  # type: ignore[arg-type, operator]
    fields = {
        "layout": parse_layout(layout),
        "shares": shares,
        "stage_gib": (70.0, 70.0, 70.0, 70.0),
        "limit_gib": 80.0,
        "per_node": 8,
        "microbatches": 16,
        "load": 1.0,
    }
    return Observed(**fields | changes)  # type: ignore[arg-type]


def symptoms(seen: Observed) -> set[str]:
    return {finding.symptom for finding in diagnose(seen)}


@pytest.mark.parametrize(
    ("symptom", "layout", "changes"),
    [
        ("idle pipeline", "pp=4", {"shares": {"bubble": 0.2}}),
        ("exposed all-to-all", "ep=8", {"shares": {"expert": 0.2}}),
        ("cross-node TP", "tp=16", {"shares": {"tensor": 0.1}}),
        ("cross-node EP", "ep=16", {"shares": {"expert": 0.1}}),
        ("launch-bound experts", "ep=8", {"shares": {"host": 0.2}}),
        ("unused memory", "pp=4", {"stage_gib": (40.0,) * 4}),
        ("recompute that buys nothing", "recompute=full", {"stage_gib": (40.0,)}),
        ("host-bound offload", "offload=1.0", {"shares": {"offload": 0.3}}),
        ("uneven stages", "pp=4", {"shares": {"compute": 0.9, "bubble": 0.1}}),
        ("logits stage", "pp=4", {"stage_gib": (40.0, 40.0, 40.0, 70.0)}),
        ("imbalance", "ep=8", {"load": 1.5}),
    ],
)
def test_each_symptom_is_seen_where_it_is(symptom, layout, changes):
    assert symptom in symptoms(observed(layout, **changes))
    sound = observed("pp=4", shares={"compute": 16 / 19, "bubble": 3 / 19})
    assert symptoms(sound) == {"idle pipeline"}, "even stages with full memory have no other"


def test_findings_come_with_figures_in_words_the_strongest_first():
    found = diagnose(observed("ep=8", shares={"data": 0.1, "expert": 0.25}))
    assert found[0].symptom == "exposed all-to-all" and "25%" in found[0].detail
    assert [f.strength for f in found] == sorted((f.strength for f in found), reverse=True)


def test_nothing_is_said_of_memory_that_no_rank_reported():
    assert not symptoms(observed("recompute=full", stage_gib=())) & {"unused memory"}


def test_the_knobs_of_the_rules_exist():
    assert {knob for rule in RULES for knob in rule.knobs} <= set(KNOBS)


def test_rows_one_knob_away_are_those_that_one_turn_reaches():
    texts = ["tp=2 pp=2", "tp=4 pp=2", "tp=2 pp=4", "tp=4 pp=4", "tp=2 pp=2 recompute=full"]
    layouts = [parse_layout(text) for text in texts]
    near = one_knob_away(LayoutTable.of(layouts), 0, tuple(KNOBS))
    assert near == {1: "TP", 2: "PP", 4: "recompute"}
    assert all(knobs_changed(layouts[0], layouts[row]) == [knob] for row, knob in near.items())
    assert knob_words(texts[0], texts[1], "TP") == (
        "tp=2 sequence_parallel=on",
        "tp=4 sequence_parallel=on",
    )


@pytest.mark.parametrize(
    ("step_s", "verdict"),
    [
        (9.0, "confirmed"),
        (10.0, "refuted"),
        (11.0, "refuted"),
        (9.66, "unclear"),
        (None, "refuted"),
    ],
)
def test_a_trial_confirms_or_refutes(step_s, verdict):
    supposed = hypothesis(10.0)
    judged = judge(supposed, finished(0, "pp=4", 10.0), finished(1, "pp=2", step_s))
    assert judged.verdict == verdict and judged.expected_percent == 10.0


def test_a_fault_of_the_machine_leaves_it_unclear():
    lost = finished(1, "pp=2", None, outcome="infrastructure")
    assert judge(hypothesis(5.0), finished(0, "pp=4", 10.0), lost).verdict == "unclear"


def test_each_hypothesis_is_judged_once():
    events = [
        finished(0, "pp=4", 10.0),
        Advised(run=0, findings=(), hypothesis=hypothesis(5.0)),
        finished(1, "pp=2", 9.0),
    ]
    (due,) = judgements(Standing(events))
    assert not list(judgements(Standing([*events, due])))


def test_a_fault_is_judged_only_when_the_layout_is_given_up():
    lost = finished(1, "pp=2", None, outcome="infrastructure")
    events = [
        finished(0, "pp=4", 10.0),
        Advised(run=0, findings=(), hypothesis=hypothesis(5.0)),
        lost,
    ]
    assert not list(judgements(Standing(events)))
    again = lost.model_copy(update={"run": 2})
    assert [e.verdict for e in judgements(Standing([*events, again]))] == ["unclear"]
    better = finished(2, "pp=2", 9.0)
    assert [e.verdict for e in judgements(Standing([*events, better]))] == ["confirmed"]


def hypothesis(expected: float) -> Hypothesis:
    return Hypothesis(
        number=1,
        base=0,
        layout="pp=2",
        knob="PP",
        symptom="idle pipeline",
        words="stages wait",
        expected_percent=expected,
        low_percent=0.0,
        high_percent=20.0,
        source="rules",
    )


def test_a_campaign_tests_what_the_advisor_supposes(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("ATTUNE_HOME", str(tmp_path))
    events = list(run_campaign(begin("advised", "rules")))
    advised = [e for e in events if isinstance(e, Advised)]
    assert [e.run for e in advised] == list(range(len(advised))), "every run, in order"
    supposed = {h.number: h for e in advised if (h := e.hypothesis)}
    judged = [e for e in events if isinstance(e, Judged)]
    whys = {e.run: e.why for e in events if isinstance(e, Proposed)}
    assert judged, "this cluster leaves something to suppose"
    for verdict in judged:
        assert whys[verdict.run].startswith(f"hypothesis {verdict.hypothesis}: ")
        told = supposed[verdict.hypothesis]
        base = next(e for e in events if isinstance(e, Finished) and e.run == told.base)
        assert knobs_changed(parse_layout(base.layout), parse_layout(told.layout)) == [told.knob]
    assert "Hypothesis 1" in (tmp_path / "experiments/advised/recipe.yaml").read_text()


def test_nobody_advises_where_nobody_is_asked(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("ATTUNE_HOME", str(tmp_path))
    events = list(run_campaign(begin("alone", "none")))
    assert not [e for e in events if isinstance(e, Advised | Judged)]
