from __future__ import annotations

import numpy as np
import pytest

from attune.catalog import load_cluster, load_model
from attune.estimate import estimate_memory, estimate_step_time
from attune.estimate.fits import RESIDUALS, learn_residuals, probability
from attune.estimate.novelty import novelty
from attune.layout import LayoutTable, parse_layout
from attune.workload import Workload


def test_probability_falls_with_the_peak_and_never_is_certain() -> None:
    peaks = np.linspace(20.0, 400.0, 200)
    chances = probability(80.0, peaks, np.full(200, 0.1))
    assert (np.diff(chances) <= 0).all()
    assert 0 < chances.min() < 0.001
    assert 0.99 < chances.max() < 1


def test_probability_at_a_quantile_is_its_level() -> None:
    for level in RESIDUALS.levels:
        peak = 80.0 / np.exp(0.1 * RESIDUALS.quantile(level))
        assert probability(80.0, np.array([peak]), np.array([0.1]))[0] == pytest.approx(level)


def test_every_group_counts_alike_in_the_quantiles() -> None:
    groups = ["many"] * 30 + [f"one {i}" for i in range(9)]
    learnt = learn_residuals([2.0] * 30 + [0.1 * i for i in range(9)], groups)
    assert learnt.quantile(0.5) < 0.7
    assert (np.diff(learnt.values) > 0).all()


def test_interval_holds_the_point_of_a_median_residual() -> None:
    table = LayoutTable.of([parse_layout("tp=4 pp=4")])
    estimate = estimate_memory(
        load_model("llama-3.1-70b"), load_cluster("h100", 64), Workload(), table
    )
    low, high = estimate.interval()
    middle = estimate.peak_gib * np.exp(RESIDUALS.quantile(0.5) * estimate.sigma)
    assert (low < middle).all()
    assert (middle < high).all()


@pytest.mark.parametrize(
    ("model", "gpu", "text", "precision", "framework"),
    [
        ("glm-5.2", "h100", "tp=1 pp=2 ep=8", "bf16", "megatron-core"),
        ("glm-4.5", "mi300x", "tp=1 pp=2 ep=8", "bf16", "megatron-core"),
        ("glm-4.5", "h100", "tp=1 pp=2 ep=8", "fp8", "megatron-core"),
        ("glm-4.5", "h100", "tp=1 pp=2 ep=8", "bf16", "slime"),
        ("glm-4.5", "h100", "tp=1 pp=2 ep=8 offload=0.5", "bf16", "megatron-core"),
    ],
)
def test_what_was_not_measured_widens_the_intervals(
    model: str, gpu: str, text: str, precision: str, framework: str
) -> None:
    def sigmas(model: str, gpu: str, text: str, precision: str, framework: str) -> list[float]:
        about = (
            load_model(model),
            load_cluster(gpu, 64),
            Workload(precision=precision),  # type: ignore[arg-type]
            LayoutTable.of([parse_layout(text)]),
        )
        memory = estimate_memory(*about, framework=framework)
        time = estimate_step_time(*about, framework=framework)
        return [float(memory.sigma[0]), float(time.sigma[0]), float(novelty(*about, framework)[0])]

    usual = sigmas("glm-4.5", "h100", "tp=1 pp=2 ep=8", "bf16", "megatron-core")
    odd = sigmas(model, gpu, text, precision, framework)
    assert usual[2] == 0
    assert odd[2] > 0
    assert odd[0] > usual[0]
