"""Attribution: parts that add up, measured where runs exist."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from advisor_runs import finished
from hypothesis import given
from hypothesis import strategies as st

from attune.catalog import load_cluster, load_model
from attune.experiment import Experiment, Inputs
from attune.experiment.events import Attributed, Completed, Finished
from attune.layout import parse_layout
from attune.layout.space import Space
from attune.search.attribution import Value, split
from attune.search.attribution_paths import Paths, Steps
from attune.search.campaign import run_campaign
from attune.workload import Workload

START, END = "tp=2 pp=4 ep=8", "tp=4 pp=2 ep=8 recompute=full"


def steps() -> Steps:
    return Steps.between(parse_layout(START), parse_layout(END))


def values(speeds: list[float], measured: set[int]) -> list[Value]:
    return [
        Value(
            layout=str(place),
            log_tokens=math.log(speed),
            deviation=0.01,
            runs=(finished(place, "pp=1", 1000 / speed),) if place in measured else (),
            p_fits=0.9,
        )
        for place, speed in enumerate(speeds)
    ]


def test_places_turn_one_knob_after_another():
    found = steps()
    assert found.groups == (("TP",), ("PP",), ("recompute",))
    assert found.layout(0) == parse_layout(START) and found.layout(7) == parse_layout(END)
    assert found.layout(1) == parse_layout("tp=4 pp=4 ep=8")


@given(st.lists(st.floats(1.0, 1e4), min_size=8, max_size=8))
def test_the_parts_add_up_to_the_gain(speeds):
    told = split(steps(), values(speeds, {0, 7}), frozenset(range(8)))
    total = 100 * (speeds[7] / speeds[0] - 1)
    assert math.isclose(sum(p.percent for p in told.contributions), total, abs_tol=1e-6)
    assert told.orders == 6


def test_a_part_is_the_mean_over_the_orders():
    speeds = [100.0, 110.0, 120.0, 150.0, 90.0, 130.0, 140.0, 160.0]
    logs = np.log(speeds)
    paths = Paths(3, frozenset(range(8)))
    for step in range(3):
        orders = []
        for order in itertools.permutations(range(3)):
            before = sum(1 << s for s in order[: order.index(step)])
            orders.append(logs[before | 1 << step] - logs[before])
        mine = sum(weight * logs[place] for place, weight in paths.coefficients(step).items())
        assert mine == pytest.approx(np.mean(orders))


def test_illegal_places_are_passed_by():
    speeds = [100.0, 0.1, 120.0, 150.0, 0.1, 0.1, 140.0, 160.0]
    told = split(steps(), values(speeds, {0, 7}), frozenset({0, 2, 3, 6, 7}))
    assert told.orders == 2 and min(p.percent for p in told.contributions) > 0


def test_a_measured_path_leaves_predictions_out():
    speeds = [100.0, 110.0, 1.0, 120.0, 1.0, 1.0, 1.0, 150.0]
    told = split(steps(), values(speeds, {0, 1, 3, 7}), frozenset(range(8)))
    assert told.orders == 1
    assert {p.provenance for p in told.contributions} == {"measured"}
    first = next(p for p in told.contributions if p.knob == "TP")
    assert first.runs == (0, 1)
    assert first.before_tokens == pytest.approx(100) and first.after_tokens == pytest.approx(110)


def test_what_is_not_measured_is_marked():
    told = split(steps(), values([100.0] * 7 + [150.0], {0, 7}), frozenset(range(8)))
    assert {p.provenance for p in told.contributions} == {"predicted"}
    assert all(p.before_tokens is None and not p.runs for p in told.contributions)


@pytest.mark.parametrize("budget", [0, 4])
def test_a_campaign_says_where_its_gain_comes_from(monkeypatch, tmp_path: Path, budget: int):
    monkeypatch.setenv("ATTUNE_HOME", str(tmp_path))
    inputs = Inputs(
        experiment="gains",
        model=load_model("qwen3-30b-a3b"),
        cluster=load_cluster("h100", 16),
        workload=Workload(),
        space=Space(
            name="small",
            tp=(1, 2),
            pp=(1, 2),
            ep=(4, 8, 16),
            stages=("even",),
            recompute=("none", "core_attn,moe"),
        ),
        launcher="simulated",
        launcher_reason="asked for",
        trials=4,
        attribution_trials=budget,
    )
    events = list(run_campaign(Experiment.create(inputs)))
    (told,) = [e for e in events if isinstance(e, Attributed)]
    done = events[-1]
    assert isinstance(done, Completed) and done.winner == told.winner
    gain = next(g for g in done.gains if g.over == "reference")
    assert sum(p.percent for p in told.contributions) == pytest.approx(gain.percent)
    extra = [e for e in events if isinstance(e, Finished) and e.purpose == "trial"]
    assert len(extra) <= budget and (not budget or extra)
    assert f"Of the {told.total_percent:+.1f} %" in (
        tmp_path / "experiments/gains/recipe.yaml"
    ).read_text().replace("\n    ", " ")
