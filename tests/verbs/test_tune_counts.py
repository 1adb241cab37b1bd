"""Campaigns on several counts, and projection to a larger cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from attune.catalog import load_cluster, load_model
from attune.errors import AttuneError
from attune.estimate import estimate_step_time
from attune.experiment import list_experiments
from attune.experiment.events import Completed, Finished
from attune.layout import LayoutTable, parse_layout
from attune.report.objectives import CountRow
from attune.verbs.tune import Campaign, TuneRequest, tune
from attune.verbs.tune_answers import find_front, find_projection
from attune.verbs.tune_counts import compare, read_counts, run_counts, tune_counts
from attune.workload import Workload

REQUEST = TuneRequest(
    model="tiny-moe", gpu="cpu", launcher="simulated", trials=2, name="many", min_gain=0.0
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTUNE_HOME", str(tmp_path))


def asked(**changes: object) -> TuneRequest:
    return TuneRequest(**{**vars(REQUEST), **changes})  # type: ignore[arg-type]


def row(count: int, rate: float | None) -> CountRow:
    return CountRow(
        count=count,
        experiment=f"e-{count}",
        layout="tp=1" if rate else None,
        tokens_per_s_per_gpu=rate,
        usd_per_million_tokens=None,
        hours_per_billion_tokens=1e9 / (rate * count * 3600) if rate else None,
        peak_gib=1.0,
        provenance="predicted",
        front=False,
    )


def test_counts_are_numbers() -> None:
    assert read_counts("128") == (128,)
    assert read_counts("256, 64,128") == (64, 128, 256)
    assert read_counts("") == ()
    for wrong in (
        "64,",
        "a",
        "64,64",
        "-1",
        "0",
        "1.5",
        "²",
        "9" * 30,
        ",".join(map(str, range(1, 19))),
    ):
        with pytest.raises(AttuneError, match="--count"):
            read_counts(wrong)


def test_the_objective_decides_between_counts() -> None:
    rows = [row(64, 100.0), row(128, 90.0), row(256, 40.0), row(512, None)]
    assert compare("throughput", rows).best == compare("cost", rows).best == 64
    timed = compare("time-to-tokens", rows)
    assert timed.best == 128
    assert [r.count for r in timed.rows if r.front] == [64, 128]
    assert compare("cost", [row(8, None)]).best is None


def test_every_count_is_tuned_and_the_same_command_goes_on() -> None:
    def play(campaign: Campaign) -> int:
        return len(list(campaign.events()))

    first = run_counts(tune_counts(REQUEST, (2, 4)), play)
    assert {e.name for e in list_experiments()} == {"many-2", "many-4"}
    assert all(r.layout and r.provenance == "predicted" for r in first.rows)
    again = tune_counts(REQUEST, (2, 4))
    assert all(campaign.resumed for campaign in again)
    assert run_counts(again, play) == first
    with pytest.raises(AttuneError, match="asked something else"):
        tune_counts(asked(trials=3), (2, 4))


def test_projection_follows_the_estimate_and_its_interval_holds_it() -> None:
    campaign = tune(asked(count=4, project=8, workload_fields={"global_batch": 32}))
    assert campaign.inputs.workload.global_batch == 16
    events = list(campaign.events())
    runs = [e for e in events if isinstance(e, Finished)]
    done = events[-1]
    assert isinstance(done, Completed)
    found = find_projection(campaign.inputs, runs, done)
    assert found is not None and found.count == 8 and found.problem == ""
    assert found.low_s < found.step_s < found.high_s
    model, table = load_model("tiny-moe"), LayoutTable.of([parse_layout(found.layout)])
    workload = campaign.inputs.workload
    small, large = (
        estimate_step_time(
            model,
            load_cluster("cpu", count),
            Workload.model_validate({**workload.model_dump(), "global_batch": 4 * count}),
            table,
        ).total[0]
        for count in (4, 8)
    )
    won = next(run for run in runs if run.run == done.winner_run)
    assert found.step_s / (won.step_time_s or 0) == pytest.approx(large / small, rel=0.3)
    assert find_front(campaign.inputs, runs)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"project": 2}, "fewer GPUs"),
        ({"project": 8, "workload_fields": {"global_batch": 5}}, "whole"),
    ],
)
def test_projections_that_cannot_be_are_named(changes: dict[str, object], named: str) -> None:
    with pytest.raises(AttuneError, match=named):
        tune(asked(count=4, **changes))
