"""What a few runs teach about the estimator's error."""

from __future__ import annotations

import numpy as np
import pytest

from attune.search.residual import Belief, Places, Residual

PRIOR = Residual(offset=0.3, amplitudes=(0.03, 0.3), lengths=(1.0, 4.0), alone=0.0, noise=0.01)
POINTS = np.arange(40.0)[:, None]


def places(shares: np.ndarray | None = None) -> Places:
    given = np.zeros((len(POINTS), 1)) if shares is None else shares
    return Places.of(POINTS, given, np.eye(given.shape[1]) * 0.25)


def believe(values: np.ndarray, rows: list[int], at: Places | None = None) -> Belief:
    return PRIOR.believe(at or places(), rows, values[rows], np.full(len(rows), 0.01))


def test_an_error_common_to_all_is_learnt_from_one_run() -> None:
    belief = believe(np.full(40, 0.2), [3])
    assert np.abs(belief.mean - 0.2).max() < 0.1
    assert believe(np.full(40, 0.2), []).mean.max() == 0


def test_an_efficiency_that_is_off_is_learnt_from_runs_far_away() -> None:
    shares = np.linspace(0, 1, 40)[:, None] * np.where(np.arange(40) % 2, 1.0, 0.3)[:, None]
    truth = 0.5 * shares[:, 0]
    rows = [0, 5, 10, 15, 20]
    error = np.abs(believe(truth, rows, places(shares)).mean - truth)[30:].mean()
    assert error < 0.5 * np.abs(believe(truth, rows).mean - truth)[30:].mean()


def test_rough_errors_widen_the_belief_and_smooth_ones_narrow_it() -> None:
    random = np.random.default_rng(0)
    rows = list(range(0, 40, 4))
    rough = believe(0.3 * random.normal(size=40), rows).deviation[2]
    smooth = believe(np.full(40, 0.1), rows).deviation[2]
    assert rough > 3 * smooth


def test_a_covariance_with_correlations_is_kept() -> None:
    shares = np.random.default_rng(1).normal(size=(5, 3))
    covariance = np.array([[1.0, 0.4, 0.0], [0.4, 2.0, 0.1], [0.0, 0.1, 0.5]])
    found = Places.of(POINTS[:5], shares, covariance).shares
    assert np.allclose(found @ found.T, shares @ covariance @ shares.T)


def test_improvement_and_chance_of_a_mixture() -> None:
    belief = Belief(
        weights=np.array([0.25, 0.75]),
        means=np.array([[0.0], [1.0]]),
        deviations=np.array([[0.5], [0.2]]),
    )
    random = np.random.default_rng(2)
    drawn = np.where(
        random.random(400_000) < 0.25,
        random.normal(0.0, 0.5, 400_000),
        random.normal(1.0, 0.2, 400_000),
    )
    bound = np.array([0.7])
    assert belief.mean[0] == pytest.approx(drawn.mean(), abs=0.01)
    assert belief.deviation[0] == pytest.approx(drawn.std(), abs=0.01)
    assert belief.chance_below(bound)[0] == pytest.approx((drawn < 0.7).mean(), abs=0.01)
    expected = np.maximum(0.7 - drawn, 0).mean()
    assert belief.improvement(bound)[0] == pytest.approx(expected, abs=0.01)
