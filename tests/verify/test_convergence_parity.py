"""Ours against Megatron-Bridge's own function, on pairs of curves that a seed gives.

`tests/cases/convergence_verdicts.txt` holds what the real function said (commit 067f987d,
scripts/performance/utils/evaluate.py): for each threshold set one hexadecimal digit per pair, the
sum of 1 correlation, 2 point_wise_tolerance, 4 final_loss, 8 outliers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from attune.verify.convergence import FUNCTION_DEFAULTS, PIPELINE, Floats, validate_convergence

VERDICTS = Path(__file__).parents[1] / "cases" / "convergence_verdicts.txt"
CHECKED = 2_000
"""Pairs checked here, out of the 10,000 of the file, which takes a few seconds more."""
METRICS = ("correlation", "point_wise_tolerance", "final_loss", "outliers")


def pairs(number: int) -> Iterator[tuple[Floats, Floats]]:
    """Curves alike, noisy, offset, with NaN, flat, spiked, near zero, reversed, short."""
    random = np.random.default_rng(20)
    for index in range(number):
        steps = int(random.choice([1, 2, 3, 5, 10, 14, 20, 20, 20, 50]))
        start = float(random.choice([0.3, 0.5, 0.6, 2.0, 2.5, 6, 12]))
        golden = start * (1 - random.uniform(-0.2, 0.6) * np.arange(steps) / steps)
        current = _changed(random, index % 8, golden)
        if index % 8 == 4:
            golden = np.full(steps, start)
        if random.random() < 0.02:
            current[random.integers(steps)] = np.inf
        if random.random() < 0.03:
            golden[random.integers(steps)] = 0.0
        yield current, golden


def _changed(random: np.random.Generator, kind: int, golden: Floats) -> Floats:
    steps = len(golden)
    some = random.integers(0, steps, random.integers(1, 4))
    noise = random.normal(0, 1, steps)
    scale = float(random.choice([1e-3, 0.01, 0.05, 0.1]))
    current = golden.copy()
    if kind == 1:
        current = golden * (1 + scale * noise)
    elif kind == 2:
        current = golden * random.uniform(0.9, 1.12)
    elif kind == 3:
        current[some] = np.nan
    elif kind == 4:
        current = np.full(steps, golden[0]) + scale * noise * (scale < 0.05)
    elif kind == 5:
        current[some] *= random.choice([0.5, 1.06, 1.5])
    elif kind == 6:
        current = golden + 0.02 * noise
    elif kind == 7:
        current = golden[::-1].copy()
    return current


def test_pairs_give_the_verdicts_of_the_real_function() -> None:
    lines = VERDICTS.read_text(encoding="ascii").split()
    verdicts = list(zip(*lines, strict=True))
    assert len(verdicts) == 10_000
    for (current, golden), expected in zip(pairs(CHECKED), verdicts, strict=False):
        got = []
        for thresholds in (FUNCTION_DEFAULTS, PIPELINE):
            result = validate_convergence(current, golden, range(len(golden)), thresholds)
            bits = sum(1 << METRICS.index(name) for name in result.failed_metrics)
            assert result.passed == (bits == 0)
            got.append(f"{bits:x}")
        assert tuple(got) == expected
