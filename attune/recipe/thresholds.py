"""Thresholds of Megatron-Bridge's convergence check, which a recipe's `correctness` names.

Source: NVIDIA-NeMo/Megatron-Bridge, scripts/performance/utils/evaluate.py and
scripts/performance/argument_parser.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

FUNCTION_DEFAULTS: Mapping[str, float] = MappingProxyType(
    {
        "correlation_threshold": 0.95,
        "high_loss_tolerance": 0.10,
        "medium_loss_tolerance": 0.05,
        "low_loss_tolerance": 0.02,
        "final_loss_tolerance": 0.03,
        "max_outlier_ratio": 0.1,
        "outlier_threshold": 3.0,
        "skip_first_percent_loss": 0.0,
    }
)
"""Thresholds that the function itself falls back to."""

PIPELINE: Mapping[str, float] = MappingProxyType(
    {**FUNCTION_DEFAULTS, "final_loss_tolerance": 0.05, "skip_first_percent_loss": 0.20}
)
"""Thresholds that the command line of its test pipeline passes."""
