"""How many layer passes each stage holds at its peak, by schedule and recompute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attune.catalog import Model
from attune.estimate.columns import Columns
from attune.layout import StageSplits
from attune.layout.distinct import distinct_rows
from attune.layout.table import Bools, Floats, Ints


@dataclass(frozen=True, kw_only=True, slots=True)
class InFlight:
    """Layer passes alive at the first backward pass; every array is [n, P]."""

    dense: Floats
    """Passes of dense layers whose activations are kept."""
    moe: Floats
    """Passes of MoE layers whose activations are kept."""
    checkpoints: Floats
    """Inputs kept of fully recomputed layers."""
    dense_last: Bools
    """Whether the stage's last layer is dense."""
    moe_last: Bools
    """Whether the stage's last layer is a MoE layer."""


def in_flight(model: Model, columns: Columns, splits: StageSplits) -> InFlight:
    """Layer passes alive per stage, computed once per distinct schedule."""
    keys, place = _schedules(columns, splits)
    split, microbatches, full, block, layers, extra = keys.T
    counts = live_chunks(splits.pp[split], splits.vpp[split], microbatches, extra, splits.layers)
    dense = splits.dense_layers(model)[split]
    moe = splits.moe_layers(model)[split]
    per_chunk = layers[:, None, None]
    total = dense + moe
    redone = np.where(block[:, None, None] > 0, np.minimum(per_chunk, total), total)
    redone = redone * full[:, None, None]
    inputs = np.where(block[:, None, None] > 0, redone, -(-redone // per_chunk))
    redone_dense = np.minimum(redone, dense)
    alive = [
        (counts * cells).sum(axis=2, dtype=np.float64)[place]
        for cells in (dense - redone_dense, moe - (redone - redone_dense), inputs)
    ]
    moe_last = (moe.sum(axis=2) > 0)[place]
    return InFlight(
        dense=alive[0],
        moe=alive[1],
        checkpoints=alive[2],
        dense_last=(dense.sum(axis=2) > 0)[place] & ~moe_last,
        moe_last=moe_last,
    )


def _schedules(columns: Columns, splits: StageSplits) -> tuple[Ints, Ints]:
    """Distinct (split, microbatches, recompute, overlap), and the place of each row's."""
    # Warm-up never exceeds (VPP + 1) x PP chunk passes: more microbatches change nothing.
    pp = splits.pp[splits.split]
    microbatches = np.minimum(columns.microbatches, 3 * pp + 1)
    full = columns.full.astype(np.int64)
    layers = np.where(columns.full, columns.full_layers, 1)
    extra = columns.table.overlap_experts.astype(np.int64)
    keys = [splits.split, microbatches, full, columns.block.astype(np.int64), layers, extra]
    rows, place = distinct_rows(keys)
    return np.stack([key[rows] for key in keys], axis=1), place


def live_chunks(pp: Ints, vpp: Ints, microbatches: Ints, extra: Ints, layers: Ints) -> Ints:
    """[k, P, V] microbatches of each chunk alive at the first backward pass.

    Warm-up of megatron-core: PP - p - 1 microbatches, or with virtual stages
    2 (PP - p - 1) + (VPP - 1) PP chunk passes, one more with overlapped experts. The chunks go
    through in groups of PP microbatches. `layers` [u, P, V] gives the shape.
    """
    pp, vpp = np.maximum(pp, 1), np.maximum(vpp, 1)
    stage = np.arange(layers.shape[1])[None, :]
    before = np.maximum(pp[:, None] - stage - 1, 0)
    interleaved = (vpp > 1)[:, None]
    warmup = np.where(interleaved, 2 * before + ((vpp - 1) * pp + extra)[:, None], before)
    passes = np.minimum(warmup + 1, (microbatches * vpp)[:, None])
    group, cycle = pp[:, None, None], (pp * vpp)[:, None, None]
    chunk = np.arange(layers.shape[2])[None, None, :]
    whole, rest = passes[:, :, None] // cycle, passes[:, :, None] % cycle
    counts: Ints = whole * group + np.clip(rest - chunk * group, 0, group)
    return counts * (chunk < vpp[:, None, None]) * (stage < pp[:, None])[:, :, None]
