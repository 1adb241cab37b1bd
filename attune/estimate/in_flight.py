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
    embedding: Floats
    """Microbatches alive of the chunk that holds the embedding."""
    head: Floats
    """Microbatches alive of the chunk that holds the head."""


def in_flight(
    model: Model, columns: Columns, splits: StageSplits, microbatch_group: int = 0
) -> InFlight:
    """Layer passes alive per stage, computed once per distinct schedule."""
    keys, place = _schedules(columns, splits)
    split, microbatches, full, block, layers, extra = keys.T
    pp, vpp = splits.pp[split], splits.vpp[split]
    group = np.full_like(pp, microbatch_group) if microbatch_group else pp
    counts = live_chunks(pp, vpp, microbatches, extra, splits.layers, group)
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
    embedding, head = _ends(counts, pp, vpp)
    return InFlight(
        embedding=embedding[place],
        head=head[place],
        dense=alive[0],
        moe=alive[1],
        checkpoints=alive[2],
        dense_last=(dense.sum(axis=2) > 0)[place] & ~moe_last,
        moe_last=moe_last,
    )


def _ends(counts: Ints, pp: Ints, vpp: Ints) -> tuple[Floats, Floats]:
    """[k, P] live microbatches of the first and of the last chunk, 0 on the stages between."""
    embedding, head = np.zeros(counts.shape[:2]), np.zeros(counts.shape[:2])
    every = np.arange(len(counts))
    last = np.maximum(pp, 1) - 1
    embedding[:, 0] = counts[:, 0, 0]
    head[every, last] = counts[every, last, np.maximum(vpp, 1) - 1]
    return embedding, head


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


def live_chunks(
    pp: Ints, vpp: Ints, microbatches: Ints, extra: Ints, layers: Ints, group: Ints | None = None
) -> Ints:
    """[k, P, V] microbatches of each chunk alive at the first backward pass.

    Warm-up of megatron-core: PP - p - 1 microbatches, or with virtual stages
    2 (PP - p - 1) + (VPP - 1) G chunk passes, one more with overlapped experts. The chunks go
    through in groups of G microbatches, PP unless `group` says otherwise. `layers` [u, P, V]
    gives the shape.
    """
    pp, vpp = np.maximum(pp, 1), np.maximum(vpp, 1)
    together = pp if group is None else np.maximum(group, 1)
    stage = np.arange(layers.shape[1])[None, :]
    before = np.maximum(pp[:, None] - stage - 1, 0)
    interleaved = (vpp > 1)[:, None]
    warmup = np.where(interleaved, 2 * before + ((vpp - 1) * together + extra)[:, None], before)
    passes = np.minimum(warmup + 1, (microbatches * vpp)[:, None])
    several, cycle = together[:, None, None], (together * vpp)[:, None, None]
    chunk = np.arange(layers.shape[2])[None, None, :]
    whole, rest = passes[:, :, None] // cycle, passes[:, :, None] % cycle
    counts: Ints = whole * several + np.clip(rest - chunk * several, 0, several)
    return counts * (chunk < vpp[:, None, None]) * (stage < pp[:, None])[:, :, None]
