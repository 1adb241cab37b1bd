"""Parameters of every stage, and the share of them that a rank's optimizer holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attune.counts import stage_parameters
from attune.layout import StageSplits
from attune.layout.table import Floats
from attune.virtual.setting import Setting


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameters:
    """Parameters on one rank of each stage, [n, P]."""

    dense: Floats
    """Reduced over the data-parallel and context-parallel ranks."""
    expert: Floats
    """Reduced over the expert-data-parallel ranks."""
    local: Floats
    """Held by the rank's optimizer: a shard, or all without the distributed optimizer."""


def parameters_of(setting: Setting, splits: StageSplits) -> Parameters:
    """Parameters of the stages of every layout."""
    counts = stage_parameters(setting.model, setting.table, splits)
    dense, expert = counts.dense.astype(np.float64), counts.expert.astype(np.float64)
    sharded = setting.table.distributed_optimizer
    shards = np.where(sharded, setting.sizes.shards, 1.0)[:, None]
    expert_shards = np.where(sharded, setting.sizes.expert_shards, 1.0)[:, None]
    return Parameters(dense=dense, expert=expert, local=dense / shards + expert / expert_shards)
