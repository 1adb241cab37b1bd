"""Where a layout stands among others: coordinates in which near layouts err alike."""

from __future__ import annotations

import numpy as np

from attune.estimate.calibration import sensitivities
from attune.estimate.memory import MemoryEstimate
from attune.layout import LayoutTable
from attune.layout.table import DISPATCHERS, GRANULARITIES, MODULES, Floats

_DEGREES = ("tp", "pp", "vpp", "cp", "ep", "etp", "rows_per_microbatch")
_SWITCHES = (
    "sequence_parallel",
    "overlap_shared_experts",
    "overlap_experts",
    "overlap_gradients",
    "overlap_parameters",
    "overlap_tensor",
    "cuda_graphs",
    "delayed_weight_gradients",
    "precision_aware_optimizer",
)
MEMORY_SPREAD = (0.1, 0.2, 0.3, 0.15)
"""Log deviation of each column of `memory_shares`: states are nearly exact, activations less so,
passing buffers least (errors by part of the memory study), and interleaved chunks are freed out
of order, so that the allocator holds more than the estimate's flat ratio."""


def features(table: LayoutTable, layers: int) -> Floats:
    """[n, d] coordinates of every row; constant ones are left out.

    Degrees as log2, unevenness of the first and last stage, recompute and dispatcher as
    one-hot, offload share doubled, switches as 0 or 1.
    """
    even = layers / np.maximum(table.pp, 1)
    columns = [np.log2(np.maximum(getattr(table, name), 1)) for name in _DEGREES]
    columns += [
        np.where(share > 0, np.log2(np.maximum(share, 1) / even), 0.0)
        for share in (table.first, table.last)
    ]
    columns += [(table.recompute == code).astype(float) for code in range(len(GRANULARITIES))]
    columns += [(table.recompute_modules >> bit & 1).astype(float) for bit in range(len(MODULES))]
    columns += [(table.dispatcher == code).astype(float) for code in range(len(DISPATCHERS))]
    columns += [2.0 * table.optimizer_offload]
    columns += [getattr(table, name).astype(float) for name in _SWITCHES]
    matrix = np.stack(columns, axis=1)
    varying: Floats = matrix[:, np.ptp(matrix, axis=0) > 0]
    return varying if varying.shape[1] else matrix[:, :1]


def time_shares(parts: dict[str, Floats]) -> Floats:
    """[n, multipliers] share of the step time that each multiplier of the calibration scales."""
    return np.stack(sensitivities(parts), axis=1)


def memory_shares(memory: MemoryEstimate, table: LayoutTable) -> Floats:
    """[n, 4] shares of the worst stage's memory that err together.

    States, activations, passing buffers, and the last two again where stages interleave.
    """
    rows = np.arange(len(table))
    part = {name: values[rows, memory.stage] for name, values in memory.parts.items()}
    states = part["weights"] + part["gradients"] + part["optimizer"]
    moving = part["activations"] + part["transient"]
    columns = (states, part["activations"], part["transient"], moving * (table.vpp > 1))
    shares: Floats = np.stack(columns, axis=1) / np.maximum(memory.peak_gib, 1e-9)[:, None]
    return shares
