from __future__ import annotations

import json

import numpy as np
import pytest

from attune.catalog import load_cluster, load_model
from attune.errors import AttuneError
from attune.estimate import (
    NO_CALIBRATION,
    Calibration,
    Observation,
    TimeEstimate,
    estimate_memory,
    estimate_step_time,
    learn,
    observe,
)
from attune.layout import LayoutTable, parse_layout
from attune.workload import Workload

MODEL, CLUSTER = load_model("glm-4.5"), load_cluster("h200", 128)
TEXTS = (
    "tp=4 pp=16 ep=8 first=5 last=3",
    "tp=2 pp=8 ep=16 first=10 last=10 recompute=moe",
    "tp=8 pp=4 ep=8",
    "tp=4 pp=4 ep=32 recompute=full",
    "tp=2 pp=4 ep=32 rows=2",
    "tp=1 pp=8 first=10 last=10 ep=16",
)
TABLE = LayoutTable.of([parse_layout(text) for text in TEXTS])


def _estimate(calibration: Calibration = NO_CALIBRATION) -> TimeEstimate:
    return estimate_step_time(MODEL, CLUSTER, Workload(), TABLE, calibration)


def _observations(estimate: TimeEstimate, measured: np.ndarray) -> list[Observation]:
    return [
        Observation(
            parts={name: float(part[i]) for name, part in estimate.parts.items()},
            predicted_s=float(estimate.total[i]),
            measured_s=float(measured[i]),
            predicted_gib=1.0,
        )
        for i in range(len(measured))
    ]


def test_nothing_measured_changes_nothing() -> None:
    assert learn(NO_CALIBRATION, []) == NO_CALIBRATION
    assert all(value == 1.0 for value, _ in NO_CALIBRATION.summary().values())


def test_learns_a_slow_cluster() -> None:
    truth = Calibration(mean=(0.3, 0.2, 0.5, 0.0, 0.1, 0.0, 0.0))
    raw, measured = _estimate(), _estimate(truth).total
    learnt = learn(NO_CALIBRATION, _observations(raw, measured))
    before = np.abs(np.log(raw.total / measured)).mean()
    after = np.abs(np.log(_estimate(learnt).total / measured)).mean()
    assert after < before / 4
    assert learnt.observations == len(TEXTS)
    assert (_estimate(learnt).sigma < raw.sigma).all()


def test_learns_one_by_one_as_well() -> None:
    truth = Calibration(mean=(0.3, 0.0, 0.4, 0.0, 0.0, 0.0, 0.0))
    measured, calibration = _estimate(truth).total, NO_CALIBRATION
    for i in range(len(TEXTS)):
        now = _estimate(calibration)
        calibration = learn(calibration, [_observations(now, measured)[i]])
    assert np.abs(np.log(_estimate(calibration).total / measured)).mean() < 0.05


def test_one_absurd_measurement_does_not_run_away() -> None:
    raw = _estimate()
    absurd = learn(NO_CALIBRATION, _observations(raw, raw.total * 20)[:1])
    assert _estimate(absurd).total[0] < 6 * raw.total[0]
    sane = learn(absurd, _observations(_estimate(absurd), raw.total)[1:])
    assert np.abs(np.log(_estimate(sane).total / raw.total)).mean() < 0.25


def test_sensitivities_are_those_of_the_model() -> None:
    """A small change of one multiplier moves the total as the shares say."""
    from attune.estimate.calibration import NAMES, sensitivities

    raw = _estimate()
    shares = sensitivities(raw.parts)
    for place, name in enumerate(NAMES[:-1]):
        mean = [0.0] * len(NAMES)
        mean[place] = 1e-4
        moved = np.log(_estimate(Calibration(mean=tuple(mean))).total / raw.total) / 1e-4
        assert moved == pytest.approx(shares[place], abs=0.06), name


def test_interval_covers_what_the_prior_allows() -> None:
    raw = _estimate()
    assert (raw.high / raw.low > 1.3).all()
    assert (raw.high / raw.low < 6).all()


def test_goes_through_a_file() -> None:
    raw = _estimate()
    learnt = learn(NO_CALIBRATION, _observations(raw, raw.total * 1.2))
    assert Calibration.of_data(json.loads(json.dumps(learnt.as_data()))) == learnt
    with pytest.raises(AttuneError, match="calibrate again"):
        Calibration.of_data({"names": ["compute"], "mean": [0.0]})


def test_observe_takes_the_row_and_the_reserved_peak() -> None:
    time, memory = _estimate(), estimate_memory(MODEL, CLUSTER, Workload(), TABLE)
    seen = observe(time, memory, 2, measured_s=20.0, measured_reserved_gib=90.0)
    assert sum(seen.parts.values()) == pytest.approx(seen.predicted_s)
    assert seen.predicted_s == time.total[2]
    assert seen.predicted_gib == memory.reserved[2].max()
    assert learn(NO_CALIBRATION, [seen]).observations == 1
