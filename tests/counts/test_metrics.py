"""Figures of published recipe pages (GLM-4.5 on 128 H200, GLM-5.2 on 64 B200)."""

from __future__ import annotations

import pytest

from attune.catalog import load_gpu, load_model
from attune.counts import (
    active_parameters,
    cv_percent,
    mfu,
    step_flops,
    tokens_per_s_per_gpu,
    usd_per_million_tokens,
)
from attune.workload import Workload

PAGES = [
    # model, GPU, count, tokens/s/GPU, MFU, $/1M tokens, mean step seconds
    ("glm-4.5", "h200", 128, 565.44, 0.1127, 3.89, 14.49),
    ("glm-5.2", "b200", 64, 146.80, 0.0158, 26.95, 111.6),
    ("glm-5.2", "b200", 64, 146.68, 0.0158, 26.97, 111.7),
    ("glm-5.2", "b200", 64, 136.48, 0.0147, 28.99, 120.1),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: f"{p[0]}-{p[3]}")
def test_published_figures(page: tuple[str, str, int, float, float, float, float]) -> None:
    name, gpu_name, count, rate, utilisation, usd, step_s = page
    gpu, active = load_gpu(gpu_name), active_parameters(load_model(name))
    assert mfu(rate, active, gpu.peak_tflops["bf16"]) == pytest.approx(utilisation, abs=6e-5)
    assert usd_per_million_tokens(rate, gpu.usd_per_gpu_hour) == pytest.approx(usd, abs=0.005)
    assert tokens_per_s_per_gpu(step_s, Workload(), count) == pytest.approx(rate, rel=5e-4)


def test_prices_on_other_gpus() -> None:
    """Rates are published with one decimal, prices with two."""
    for gpu, rate, usd in (("h100", 68.3, 28.00), ("h200", 161.8, 13.58)):
        price = usd_per_million_tokens(rate, load_gpu(gpu).usd_per_gpu_hour)
        assert price == pytest.approx(usd, rel=0.05 / rate + 0.005 / usd)


def test_cv_is_population_deviation_over_mean() -> None:
    assert cv_percent([1.0, 3.0]) == pytest.approx(50.0)
    assert cv_percent([2.0]) == 0.0
    with pytest.raises(ValueError):
        cv_percent([])


def test_step_flops_follow_megatron() -> None:
    """Megatron's formula for Llama-3.1-8B at 8,192 tokens, written out by hand."""
    model, workload = load_model("llama-3.1-8b"), Workload(row_tokens=8192, global_batch=128)
    linear = 32 * (4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336) + 4096 * 128256
    core = 6 * 32 * 32 * 128 * 128 * 8192**2
    assert step_flops(model, workload) == pytest.approx(6 * linear * 128 * 8192 + core, rel=1e-12)
