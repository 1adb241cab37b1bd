"""Campaigns learn from measured runs, and begin with what earlier ones taught."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from attune.catalog import load_cluster
from attune.errors import AttuneError
from attune.estimate import NO_CALIBRATION
from attune.estimate.calibration import NAMES
from attune.experiment import Experiment, list_calibrations, load_calibration, save_calibration
from attune.experiment.events import Event, Finished
from attune.search.candidates import find_candidates
from attune.trial.result import RankMemory, Step, TrialResult
from attune.verbs.tune import TuneRequest, tune
from attune.verbs.tune_learning import learning, with_calibration

REQUEST = TuneRequest(
    model="tiny-moe", gpu="cpu", count=4, launcher="simulated", trials=1, name="first"
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTUNE_HOME", str(tmp_path))


def measured(seconds: float) -> TrialResult:
    return TrialResult(
        outcome="completed",
        steps=tuple(Step(step=i, seconds=seconds, loss=5.0) for i in range(20)),
        ranks=(RankMemory(rank=0, stage=0, allocated_gib=0.01, reserved_gib=0.012),),
        steps_asked=20,
        tokens_per_step=1024,
        gpus=4,
        wall_s=100.0,
        provenance="measured",
        hardware="cpu",
        launcher="local",
    )


def as_if_measured(experiment: Experiment) -> Generator[Event, None, None]:
    """The experiment's runs, told as if hardware had run them."""
    for event in experiment.events():
        if isinstance(event, Finished):
            path = experiment.run_folder(event.run) / "result.json"
            path.write_text(measured(1.0).model_dump_json(), encoding="utf-8")
            event = event.model_copy(update={"provenance": "measured"})
        yield event


def test_virtual_runs_teach_nothing(tmp_path: Path) -> None:
    file = tmp_path / "calibration.yaml"
    list(tune(TuneRequest(**{**vars(REQUEST), "calibration": file})).events())
    assert list_calibrations(file) == []


def test_measured_runs_are_learnt_and_the_next_campaign_begins_with_them(tmp_path: Path) -> None:
    file = tmp_path / "calibration.yaml"
    campaign = tune(REQUEST)
    events = list(campaign.events())
    experiment = Experiment.open("first")
    assert list(learning(as_if_measured(experiment), experiment, file))
    known = load_calibration(campaign.inputs.cluster, "megatron-core", file)
    assert known.observations == sum(isinstance(e, Finished) for e in events)
    begun = with_calibration(campaign.inputs, file)
    assert begun.known == known
    about = (begun.model, begun.cluster, begun.workload, begun.space)
    before = find_candidates(*about).candidates
    after = find_candidates(*about, None, begun.known).candidates
    assert after.step_s[0] != before.step_s[0]


def test_a_campaign_keeps_what_it_began_with(tmp_path: Path) -> None:
    file = tmp_path / "calibration.yaml"
    inputs = tune(REQUEST).inputs
    assert with_calibration(inputs, file).calibration is None
    assert inputs.known == NO_CALIBRATION
    taught = NO_CALIBRATION.__class__(mean=(0.1,) * len(NAMES), observations=3)
    save_calibration(taught, load_cluster("cpu", 4), "megatron-core", file)
    assert with_calibration(inputs, file).known.mean == taught.mean


def test_a_damaged_calibration_is_named_before_anything_is_spent(tmp_path: Path) -> None:
    file = tmp_path / "calibration.yaml"
    file.write_text("version: one", encoding="utf-8")
    request = {**vars(REQUEST), "launcher": "local", "calibration": file, "count": 2}
    with pytest.raises(AttuneError, match="calibration"):
        tune(TuneRequest(**request))
