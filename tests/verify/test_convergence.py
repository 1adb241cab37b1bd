"""Cases measured by running Megatron-Bridge's own function (golden = 12 - 0.3 i, 20 steps)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attune.verify.convergence import FUNCTION_DEFAULTS, PIPELINE, validate_convergence

N = 20
GOLDEN = [12 - 0.3 * i for i in range(N)]
NAN = math.nan
_noise = np.random.default_rng(0)
NOISY = [list(11.9 + 0.01 * _noise.standard_normal(N)) for _ in range(2)]


def _spiked(steps: tuple[int, ...]) -> list[float]:
    return [x * 1.5 if i in steps else x for i, x in enumerate(GOLDEN)]


CORRELATION, POINTS, FINAL = "correlation", "point_wise_tolerance", "final_loss"
CASES = {
    "identical": (GOLDEN, GOLDEN, (), ()),
    "4 % above": ([1.04 * x for x in GOLDEN], GOLDEN, (FINAL,), ()),
    "9 % above": ([1.09 * x for x in GOLDEN], GOLDEN, (FINAL,), (FINAL,)),
    "all NaN": ([NAN] * N, GOLDEN, (), ()),
    "last NaN": ([*GOLDEN[:-1], NAN], GOLDEN, (), ()),
    "both flat": ([11.9] * N, [11.9] * N, (), ()),
    "both flat with noise": (*NOISY, (CORRELATION,), (CORRELATION,)),
    "constant": ([9.0] * N, GOLDEN, (POINTS, FINAL), (POINTS, FINAL)),
    "reversed": (GOLDEN[::-1], GOLDEN, (CORRELATION, POINTS, FINAL), (CORRELATION, POINTS, FINAL)),
    "two spikes": (_spiked((5, 6)), GOLDEN, (CORRELATION,), (CORRELATION, POINTS)),
}


@pytest.mark.parametrize("name", CASES)
def test_measured_cases(name: str) -> None:
    current, golden, default, pipeline = CASES[name]
    for thresholds, failed in ((FUNCTION_DEFAULTS, default), (PIPELINE, pipeline)):
        result = validate_convergence(current, golden, range(N), thresholds)
        assert result.failed_metrics == failed
        assert result.passed == (not failed)


def test_figures_of_a_uniform_offset() -> None:
    result = validate_convergence([1.04 * x for x in GOLDEN], GOLDEN, range(N))
    assert result.total_points == 16  # the first fifth is skipped
    assert result.correlation == pytest.approx(1.0)
    assert result.final_loss_difference == pytest.approx(0.04)
    assert (result.point_wise_failures, result.outlier_count) == (0, 0)


@pytest.mark.parametrize(("golden", "tolerance"), [(2.0, 0.05), (2.01, 0.1), (0.5, 0.02)])
def test_tolerance_is_chosen_by_the_golden_loss_and_is_strict(
    golden: float, tolerance: float
) -> None:
    for factor, failures in ((0.999, 0), (1.001, N)):
        current = [golden * (1 + factor * tolerance)] * N
        result = validate_convergence(current, [golden] * N, range(N), FUNCTION_DEFAULTS)
        assert result.point_wise_failures == failures


def test_golden_zero_and_negative_final_loss() -> None:
    zero = validate_convergence([0.01] * N, [0.0] * N, range(N))
    assert zero.final_loss_difference == 0.01
    negative = validate_convergence([-1.0] * N, [-2.0] * N, range(N))
    assert negative.final_loss_difference == -0.5  # so it can never fail


def test_curves_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="19, 20, 20"):
        validate_convergence(GOLDEN[:-1], GOLDEN, range(N))
