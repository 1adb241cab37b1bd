"""Sizes that every part of the model asks for: groups, tokens, microbatches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attune.catalog import Cluster, Model
from attune.layout import LayoutTable
from attune.layout.table import Floats, Ints
from attune.workload import Workload


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """Derived numbers of n layouts, all [n]; an illegal grid gets the nearest sane number."""

    tp: Floats
    pp: Floats
    cp: Floats
    ep: Floats
    etp: Floats
    shards: Floats
    """Ranks over which dense parameters are replicated: DP x CP."""
    expert_shards: Floats
    """Ranks over which expert parameters are replicated."""
    stage_ranks: Floats
    """Ranks of one pipeline stage."""
    tokens: Floats
    """Tokens of a microbatch on one context-parallel rank."""
    own_tokens: Floats
    """The same after sequence parallelism."""
    routed_tokens: Floats
    """Tokens times experts that a rank computes on average, its ETP group's tokens included."""
    microbatches: Ints

    @classmethod
    def of(cls, model: Model, cluster: Cluster, workload: Workload, table: LayoutTable) -> Sizes:
        """Sizes of each row of `table`."""
        tp, pp, cp, ep, etp = (
            np.maximum(column, 1).astype(np.float64)
            for column in (table.tp, table.pp, table.cp, table.ep, table.etp)
        )
        count = cluster.count
        tokens = np.maximum(table.rows_per_microbatch, 1) * workload.row_tokens / cp
        own = tokens / np.where(table.sequence_parallel, tp, 1.0)
        top_k = model.experts.top_k if model.experts else 0
        return cls(
            tp=tp,
            pp=pp,
            cp=cp,
            ep=ep,
            etp=etp,
            shards=np.maximum(count // (tp * pp * cp), 1) * cp,
            expert_shards=np.maximum(count // (ep * etp * pp), 1),
            stage_ranks=np.maximum(count / pp, 1),
            tokens=tokens,
            own_tokens=own,
            routed_tokens=tokens / tp * top_k * etp,
            microbatches=np.maximum(table.microbatches(count, workload.global_batch), 1),
        )
