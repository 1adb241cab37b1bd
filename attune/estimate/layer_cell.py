"""Measured times of single layers, which stand in the place of the estimator's own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from attune.catalog import Cluster, Model
from attune.errors import LayoutError
from attune.layout import Layout, LayoutTable
from attune.layout.table import Bools

KINDS = ("dense", "moe", "head")
"""A layer with a dense MLP, a MoE layer, and the head with the loss."""

_SAME = (
    "tp",
    "cp",
    "ep",
    "etp",
    "sequence_parallel",
    "rows_per_microbatch",
    "recompute",
    "recompute_modules",
    "dispatcher",
    "overlap_shared_experts",
    "overlap_tensor",
    "cuda_graphs",
)
"""What the time of a layer depends on, beside model, workload and GPU."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerCell:
    """What a layer probe measured at one point of the search space."""

    layout: Layout
    """A layout of the point, as `cell_layout` gives it."""
    passes: Mapping[str, tuple[float, float]]
    """Seconds forward and backward of one microbatch, recompute included, by `KINDS`, on the
    node that `node_of` gives."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """Where the layers of a layout can be timed: one node, with EP cut to it."""

    model: Model
    """With as many experts fewer as EP is smaller, so that a rank holds and receives the same."""
    cluster: Cluster
    layout: Layout


def cell_layout(layout: Layout) -> Layout:
    """The layout without what no layer's time depends on: pipeline, optimizer, data parallelism.

    Block recompute becomes that of every layer; estimates scale by the share that is recomputed.
    """
    full = layout.recompute == "full"
    return Layout(
        **{name: getattr(layout, name) for name in _SAME},
        recompute_method="uniform" if full else None,
        recompute_layers=1 if full else None,
    )


def node_of(model: Model, cluster: Cluster, layout: Layout) -> Node:
    """One node on which the layers of `layout` can be timed with their real collectives.

    Raises:
        LayoutError: TP x CP, or ETP and any share of the experts, need more than one node.
    """
    wanted, most = cell_layout(layout), cluster.per_node
    for ep in _divisors(layout.ep):
        part = _with_experts(model, layout.ep // ep)
        count = math.lcm(layout.tp * layout.cp, ep * layout.etp)
        if count <= most and part is not None:
            return Node(
                model=part,
                cluster=Cluster(gpu=cluster.gpu, count=count),
                layout=replace(wanted, ep=ep),
            )
    raise LayoutError(
        f"a layer probe runs on one node of {most}, but TP {layout.tp} x CP {layout.cp} with EP "
        f"{layout.ep} x ETP {layout.etp} does not fit on it, fewer experts or not",
        rule="probe.one_node",
    )


def _divisors(degree: int) -> list[int]:
    return [part for part in range(degree, 0, -1) if degree % part == 0]


def _with_experts(model: Model, fewer: int) -> Model | None:
    """The model with its experts divided by `fewer`; None where too few are left to choose."""
    experts = model.experts
    if experts is None or fewer == 1:
        return model
    count, groups = experts.count // fewer, math.gcd(experts.groups, experts.count // fewer)
    if experts.count % fewer or count < experts.top_k:
        return None
    if groups < experts.groups:
        groups = 1
    chosen = min(experts.group_top_k, groups)
    cut = {"count": count, "groups": groups, "group_top_k": chosen}
    return model.model_copy(update={"experts": experts.model_copy(update=cut)})


def matching(table: LayoutTable, cell: LayerCell) -> Bools:
    """[n] rows whose layers take the time of the cell's."""
    wanted = LayoutTable.of([cell.layout])
    same = np.ones(len(table), dtype=np.bool_)
    for name in _SAME:
        same &= getattr(table, name) == getattr(wanted, name)[0]
    return same


def covered(table: LayoutTable, cells: Sequence[LayerCell]) -> Bools:
    """[n] rows whose layer times are measured."""
    found: Bools = np.zeros(len(table), dtype=np.bool_)
    for cell in cells:
        found |= matching(table, cell)
    return found
