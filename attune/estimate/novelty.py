"""What widens the interval of a row because no measurement stands near it."""

from __future__ import annotations

import numpy as np

from attune.catalog import Cluster, Model
from attune.layout import LayoutTable
from attune.layout.table import Floats
from attune.workload import Workload

_MEASURED_GPUS = {"volta", "ampere", "hopper", "blackwell", "cpu"}
_MEASURED_WORLD = 1024
"""GPUs of the largest measured job."""


def novelty(
    model: Model, cluster: Cluster, workload: Workload, table: LayoutTable, framework: str
) -> Floats:
    """[n] log deviation that comes on top for what the published measurements do not cover.

    Each kind adds about as much as the estimates missed by when a kind was left out for the first
    time: another framework 4 %, another GPU 8 %, other attention or kernels 6 %.
    """
    constant = (
        (0.06, model.indexer is not None),  # sparse attention: one published run
        (0.06, bool(model.experts and model.mlp_bias)),  # gpt-oss: kernels outside the common ones
        (0.08, cluster.gpu.architecture not in _MEASURED_GPUS),
        (0.05, workload.precision == "fp8"),  # recipes of FP8 differ in what they keep
        (0.04, framework not in ("megatron-core", "megatron-lm", "megatron-bridge", "stated")),
    )
    rows = (
        (0.03, table.optimizer_offload > 0),
        (0.04, np.full(len(table), cluster.count > _MEASURED_WORLD)),
        (0.04, table.cp > 8),
    )
    variance = sum(amount**2 for amount, found in constant if found)
    total: Floats = variance + np.sum([amount**2 * found for amount, found in rows], axis=0)
    return np.sqrt(total)
