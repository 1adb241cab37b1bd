"""Exact parameters and FLOPs, per stage and rank, and the figures that follow from them."""

from attune.counts.flops import attention_flops, step_flops
from attune.counts.metrics import cv_percent, mfu, tokens_per_s_per_gpu, usd_per_million_tokens
from attune.counts.parameters import (
    StageParameters,
    active_parameters,
    rank_parameters,
    stage_parameters,
    total_parameters,
)

__all__ = [
    "StageParameters",
    "active_parameters",
    "attention_flops",
    "cv_percent",
    "mfu",
    "rank_parameters",
    "stage_parameters",
    "step_flops",
    "tokens_per_s_per_gpu",
    "total_parameters",
    "usd_per_million_tokens",
]
