"""The numbers of each row that memory and time share, as columns of floats."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attune.catalog import Cluster, Model
from attune.layout import LayoutTable
from attune.layout.microbatches import pack
from attune.layout.table import DISPATCHERS, GRANULARITIES, METHODS, Bools, Floats, Ints
from attune.workload import Workload

IMBALANCE = 1.2
"""Tokens of the fullest expert rank over the mean under natural routing (fitted to 53 published
peaks of MoE models in Megatron's own tests)."""


EXPERT_LOAD_DEVIATION = 0.5
"""Deviation of the load of one expert over its mean in a microbatch under natural routing.
Qwen3-30B-A3B on 16 H100 takes 30.3 s a step with it and 24.7 s with balanced routing, other things
equal (Megatron-Bridge's cards), as the fullest of 16 ranks with 8 experts each then has 1.4 times
the mean."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Columns:
    """Degrees and token counts of n rows; every array is [n]."""

    model: Model
    cluster: Cluster
    workload: Workload
    table: LayoutTable
    tp: Floats
    pp: Floats
    vpp: Floats
    cp: Floats
    ep: Floats
    etp: Floats
    dp: Floats
    edp: Floats
    rows: Floats
    """Rows per microbatch."""
    microbatches: Ints
    """Microbatches per step and data-parallel rank, as rows are packed; at least 1."""
    tokens: Floats
    """Tokens of one microbatch on one rank of the context-parallel group."""
    shards: Floats
    """Parts into which sequence parallelism cuts the tokens: TP with it, 1 without."""
    routed: Floats
    """Tokens that one rank's experts receive in a microbatch, each choice counted; 0 if dense."""
    awaited: Floats
    """The same on the fullest rank of each layer, which the others wait for."""
    width: int
    """Bytes of one activation."""

    @property
    def kept_inputs(self) -> float:
        """What a linear keeps of its input, in activations: half, where it keeps the FP8 cast."""
        return 0.5 if self.workload.precision == "fp8" else 1.0

    @property
    def sharded(self) -> Floats:
        """Tokens of one rank outside attention and MLP."""
        tokens: Floats = self.tokens / self.shards
        return tokens

    @property
    def full(self) -> Bools:
        """Rows with full recompute."""
        full: Bools = self.table.recompute == GRANULARITIES.index("full")
        return full

    @property
    def block(self) -> Bools:
        """Rows with full recompute of some layers only."""
        block: Bools = self.full & (self.table.recompute_method == METHODS.index("block"))
        return block

    @property
    def full_layers(self) -> Ints:
        """Layers per checkpoint (uniform) or recomputed per chunk (block); at least 1."""
        return np.maximum(self.table.recompute_layers, 1)

    def uses(self, dispatcher: str) -> Bools:
        """Rows with that dispatcher."""
        rows: Bools = self.table.dispatcher == DISPATCHERS.index(dispatcher)
        return rows


def columns_of(model: Model, cluster: Cluster, workload: Workload, table: LayoutTable) -> Columns:
    """Columns of a table; degrees under 1 are taken as 1, so that illegal rows stay finite."""
    tp, pp, vpp, cp, ep, etp, rows = (
        np.maximum(getattr(table, name), 1).astype(np.float64)
        for name in ("tp", "pp", "vpp", "cp", "ep", "etp", "rows_per_microbatch")
    )
    tokens = rows * workload.row_tokens / cp
    shards = np.where(table.sequence_parallel, tp, 1.0)
    # Tokens of the ETP x EP group, of which every rank's experts get a share of 1 / EP.
    chosen = tokens / shards * (model.experts.top_k if model.experts else 0) * etp
    return Columns(
        model=model,
        cluster=cluster,
        workload=workload,
        table=table,
        tp=tp,
        pp=pp,
        vpp=vpp,
        cp=cp,
        ep=ep,
        etp=etp,
        dp=np.maximum(table.dp(cluster.count), 1).astype(np.float64),
        edp=np.maximum(table.edp(cluster.count), 1).astype(np.float64),
        rows=rows,
        microbatches=pack(table, cluster.count, workload.global_batch).per_rank,
        tokens=tokens,
        shards=shards,
        routed=_imbalance(workload, ep) * chosen,
        awaited=_wait(model, workload, ep) * chosen,
        width=4 if workload.precision == "fp32" else 2,
    )


def _imbalance(workload: Workload, ep: Floats) -> Floats | float:
    """Peak of the tokens of a rank over their mean."""
    return 1.0 if workload.routing == "balanced" else np.where(ep > 1, IMBALANCE, 1.0)


def _wait(model: Model, workload: Workload, ep: Floats) -> Floats | float:
    """Tokens of the fullest of EP ranks over their mean: loads of the experts of a rank add up,
    and the largest of n normal draws lies about sqrt(2 ln n) deviations out."""
    if model.experts is None or workload.routing == "balanced":
        return 1.0
    local = np.maximum(model.experts.count / ep, 1.0)
    wait: Floats = 1 + EXPERT_LOAD_DEVIATION * np.sqrt(2 * np.log(np.maximum(ep, 1.0)) / local)
    return wait
