"""Smooth hidden interactions between the features of a layout."""

from __future__ import annotations

import numpy as np

from attune.layout import LayoutTable
from attune.layout.table import Floats
from attune.virtual.draws import generator

_WAVES = 24
_DENSE = 0.45
"""Layouts of a dense model lie closer together in time, and so do their interactions."""
AMPLITUDE = {"near": 0.03, "far": 0.05, "adversarial": 0.31}
"""Spread of the logarithm by kind of cluster; `adversarial` is set so that the rank correlation
of the estimator's prior and the truth comes to 0.6 over the five clusters of benchmarks/search.py
(0.30 gives 0.61, 0.35 gives 0.57; means of 6 seeds each)."""


def features(table: LayoutTable) -> Floats:
    """Features of a layout on comparable scales, [n, d]."""
    degrees = [table.tp, table.pp, table.vpp, table.cp, table.ep, table.etp]
    columns = [np.log2(np.maximum(x, 1)) / 2 for x in (*degrees, table.rows_per_microbatch)]
    columns += [table.recompute * 0.5, _bits(table) * 0.25, table.optimizer_offload * 1.0]
    columns += [table.dispatcher * 0.35, (table.first - table.last) * 0.04]
    switches = ("overlap_shared_experts", "overlap_experts", "overlap_gradients", "cuda_graphs")
    columns += [getattr(table, name) * 0.25 for name in switches]
    stacked: Floats = np.stack([np.asarray(x, dtype=np.float64) for x in columns], axis=1)
    return stacked


def interaction(table: LayoutTable, kind: str, seed: int, experts: bool) -> Floats:
    """The factor [n] that hidden interactions put on the step time: random Fourier waves."""
    points = features(table)
    random = generator("interactions", kind, seed)
    directions = random.normal(size=(points.shape[1], _WAVES))
    phases = random.uniform(0, 2 * np.pi, size=_WAVES)
    waves = np.sqrt(2 / _WAVES) * np.cos(points @ directions + phases).sum(axis=1)
    factor: Floats = np.exp(AMPLITUDE[kind] * (1.0 if experts else _DENSE) * waves)
    return factor


def _bits(table: LayoutTable) -> Floats:
    """How many modules selective recompute names."""
    masks = table.recompute_modules
    counts: Floats = sum(
        ((masks >> bit) & 1 for bit in range(8)), np.zeros(len(table), dtype=np.int64)
    ).astype(np.float64)
    return counts
