"""The figures of a recipe page: tokens per second and GPU, MFU, price, step-time spread."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attune.workload import Workload


def tokens_per_s_per_gpu(step_s: float, workload: Workload, count: int) -> float:
    """Tokens of one step over its time and the GPUs."""
    return workload.tokens_per_step / step_s / count


def mfu(tokens_per_s_per_gpu: float, active_parameters: int, peak_tflops: float) -> float:
    """Model FLOPs utilisation, 0 to 1: 6 FLOPs per token and active parameter over the peak."""
    return 6 * active_parameters * tokens_per_s_per_gpu / (peak_tflops * 1e12)


def usd_per_million_tokens(tokens_per_s_per_gpu: float, usd_per_gpu_hour: float) -> float:
    """Price of a million tokens, US dollars."""
    return usd_per_gpu_hour / (tokens_per_s_per_gpu * 3600 / 1e6)


def cv_percent(values: Sequence[float]) -> float:
    """Population standard deviation over mean, percent; 0 for a single value.

    Raises:
        ValueError: `values` is empty.
    """
    if not values:
        raise ValueError("cv_percent needs at least one value")
    mean = sum(values) / len(values)
    return 100 * math.sqrt(sum((x - mean) ** 2 for x in values) / len(values)) / mean
