"""Seconds of a whole step: the pipeline's events, then reduction, optimizer and host."""

from __future__ import annotations

import numpy as np

from attune.layout import StageSplits
from attune.layout.table import Floats
from attune.virtual.replay import pipeline_ends
from attune.virtual.setting import Setting
from attune.virtual.stage_time import StageTime, stage_time


def step_time(
    setting: Setting, splits: StageSplits, seed: tuple[object, ...], whole: bool = False
) -> Floats:
    """Seconds of a step, [n], of layouts that share PP and VPP.

    Each stage reduces its gradients when its own last backward ends; the gradient norm then
    waits for all of them, and the optimizer and the parameter gather follow.

    Args:
        setting: the layouts and the cluster.
        splits: their stage splits.
        seed: names the draw of the nodes' speeds.
        whole: replay every microbatch instead of following the steady state.
    """
    pieces = stage_time(setting, splits, seed)
    ends = _ends(pieces, setting, whole)
    seconds: Floats = (
        (ends + pieces.reduction).max(axis=0)
        + pieces.update.max(axis=0)
        + pieces.gathering.max(axis=0)
        + setting.hidden.step_ms * 1e-3
    )
    return seconds


def _ends(pieces: StageTime, setting: Setting, whole: bool) -> Floats:
    ends = np.zeros_like(pieces.reduction)
    microbatches = setting.sizes.microbatches
    for number in np.unique(microbatches).tolist():
        rows = np.flatnonzero(microbatches == number)
        ends[:, rows] = pipeline_ends(
            pieces.durations[..., rows], pieces.delays[:, rows], number, whole
        )
    return ends
