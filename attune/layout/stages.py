"""Which layers stand on which pipeline stage and virtual chunk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attune.catalog import Model
from attune.layout.distinct import distinct_rows
from attune.layout.pipeline_layout import chunk_layers
from attune.layout.table import Ints, LayoutTable


@dataclass(frozen=True, kw_only=True, slots=True)
class StageSplits:
    """The distinct splits of a table: u of them, padded to P stages and V chunks.

    Chunk (p, c) is virtual chunk c of pipeline rank p; the embedding is on (0, 0), the head on
    (pp - 1, vpp - 1). Cells beyond a row's own pp and vpp hold 0 layers.
    """

    split: Ints
    """[n] split of each table row: an index into the arrays below."""
    pp: Ints
    """[u] pipeline stages."""
    vpp: Ints
    """[u] chunks per stage."""
    layers: Ints
    """[u, P, V] transformer layers of each chunk."""
    start: Ints
    """[u, P, V] index (0-based) of the first layer of each chunk."""
    exists: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    """[u, P] whether the stage exists."""

    def moe_layers(self, model: Model) -> Ints:
        """[u, P, V] MoE layers of each chunk."""
        before = np.concatenate([[0], np.cumsum(model.moe_pattern, dtype=np.int64)])
        start = np.clip(self.start, 0, model.layers)
        end = np.clip(self.start + self.layers, 0, model.layers)
        layers: Ints = before[end] - before[start]
        return layers

    def dense_layers(self, model: Model) -> Ints:
        """[u, P, V] layers with a dense MLP of each chunk."""
        return self.layers - self.moe_layers(model)


def stage_splits(model: Model, table: LayoutTable) -> StageSplits:
    """Layers of every stage and chunk, one split per distinct (PP, VPP, first, last, layout).

    Follows megatron-core 0.16 `get_num_layers_to_build`: stages are virtual-chunk-major, uneven
    first and last stages give the rest evenly to the middle. An illegal split gives rounded
    counts; `attune.layout.rules` says that it is illegal.
    """
    keys = [table.pp, table.vpp, table.first, table.last, table.pipeline_layout]
    rows, inverse = distinct_rows(keys)
    unique = np.stack([key[rows] for key in keys], axis=1)
    width = max(int(unique[:, 0].max(initial=1)), 1)
    depth = max(int(unique[:, 1].max(initial=1)), 1)
    layers = np.zeros((len(unique), width, depth), dtype=np.int64)
    for index, (pp, vpp, first, last, text) in enumerate(unique.tolist()):
        cells = (
            chunk_layers(table.pipeline_layouts[text], pp)
            if text >= 0
            else _even_or_uneven(model.layers, pp, vpp, first, last)
        )
        cells = cells[:width, : max(vpp, 1)]
        layers[index, : cells.shape[0], : cells.shape[1]] = cells
    return StageSplits(
        split=inverse,
        pp=unique[:, 0],
        vpp=unique[:, 1],
        layers=layers,
        start=_starts(layers),
        exists=np.arange(width)[None, :] < unique[:, :1],
    )


def _even_or_uneven(total: int, pp: int, vpp: int, first: int, last: int) -> Ints:
    pp, vpp, first, last = max(pp, 1), max(vpp, 1), max(first, 0), max(last, 0)
    per_stage = np.zeros(pp, dtype=np.int64)
    middle = pp - (first > 0) - (last > 0)
    rest = total - first - last
    per_stage[:] = rest // middle if middle > 0 else 0
    if first:
        per_stage[0] = first
    if last:
        per_stage[-1] = last
    return np.repeat(np.maximum(per_stage, 0)[:, None] // vpp, vpp, axis=1)


def _starts(layers: Ints) -> Ints:
    """First layer of each chunk: model order is chunk by chunk, and stage by stage within."""
    splits, stages, chunks = layers.shape
    order = layers.transpose(0, 2, 1).reshape(splits, chunks * stages)
    before = np.cumsum(order, axis=1) - order
    return before.reshape(splits, chunks, stages).transpose(0, 2, 1)
