from __future__ import annotations

from pathlib import Path

import pytest

from attune.errors import AttuneError
from attune.experiment import load_calibration
from attune.layout import LayoutTable, parse_layout
from attune.trial.result import RankMemory, Step, TrialResult
from attune.verbs.calibration import forget_calibrations, learn_from_trial, show_calibrations
from attune.verbs.suggest import suggestions
from attune.verbs.target import find_target

TARGET = find_target("glm-4.5", "h200", 128)
LAYOUT = parse_layout("tp=4 pp=16 ep=8 first=5 last=3")


def _result(seconds: float, **changes: object) -> TrialResult:
    told = {
        "outcome": "completed",
        "steps": tuple(Step(step=i, seconds=seconds) for i in range(20)),
        "ranks": (RankMemory(rank=8, stage=1, allocated_gib=110.0, reserved_gib=120.0),),
        "steps_asked": 20,
        "tokens_per_step": TARGET.workload.tokens_per_step,
        "gpus": 128,
        "wall_s": 1000.0,
        "provenance": "measured",
        "hardware": "h200",
        "launcher": "local",
    }
    return TrialResult.model_validate(told | changes)


def _predicted_s(file: Path | None = None) -> float:
    known = load_calibration(TARGET.cluster, "megatron-core", file)
    return suggestions(TARGET, LayoutTable.of([LAYOUT]), known)[0].step_s


def test_a_measured_trial_moves_the_next_prediction_towards_it() -> None:
    before = _predicted_s()
    learnt = learn_from_trial(TARGET, LAYOUT, _result(2 * before))
    assert learnt.trials == 1 and learnt.file is not None and learnt.file.is_file()
    assert "learnt from 1 run" in learnt.words
    assert 1.3 * before < _predicted_s() < 2 * before
    again = learn_from_trial(TARGET, LAYOUT, _result(2 * before))
    assert again.trials == 2 and "2 runs" in again.words


@pytest.mark.parametrize(
    "changes",
    [
        {"provenance": "predicted"},
        {"outcome": "out_of_memory"},
        {"outcome": "timed_out"},
    ],
)
def test_what_was_not_measured_to_its_end_teaches_nothing(changes: dict[str, object]) -> None:
    learnt = learn_from_trial(TARGET, LAYOUT, _result(1.0, **changes))
    assert learnt.words == "" and show_calibrations() == ()


def test_shows_prior_and_posterior_of_each_multiplier(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    learn_from_trial(TARGET, LAYOUT, _result(3 * _predicted_s()), file=file)
    assert show_calibrations() == ()
    (report,) = show_calibrations(file=file)
    assert (report.gpu, report.per_node, report.trials) == ("h200", 8, 1)
    compute = next(one for one in report.multipliers if one.name == "compute")
    assert compute.prior == 1.0 and compute.posterior > 1.1
    assert compute.low < compute.posterior < compute.high
    # What was measured is known better.
    assert compute.high / compute.low < compute.prior_high / compute.prior_low
    assert show_calibrations(gpu="H200", framework="megatron-core", file=file) == (report,)
    assert show_calibrations(gpu="b200", file=file) == ()


def test_forgets_what_is_named() -> None:
    learn_from_trial(TARGET, LAYOUT, _result(10.0))
    assert forget_calibrations(gpu="b200") == 0
    assert forget_calibrations(gpu="h200", framework="megatron-core") == 1
    assert show_calibrations() == ()
    with pytest.raises(AttuneError, match="did you mean"):
        forget_calibrations(gpu="h20")


def test_a_file_that_cannot_be_written_is_said_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    learnt = learn_from_trial(TARGET, LAYOUT, _result(9.0), file=tmp_path / "plain" / "c.yaml")
    assert "not learnt from" in learnt.words and "--calibration" in learnt.words
