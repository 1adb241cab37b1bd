"""The reference arm: the layout that a careful engineer would trust on this cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attune.catalog import Cluster, Model
from attune.errors import AttuneError
from attune.estimate import NO_CALIBRATION, Calibration
from attune.layout import Layout, LayoutTable, write_layout
from attune.layout.nearest import nearest_layout
from attune.layout.rules import Setting, broken_rules
from attune.layout.table import Bools
from attune.recipe import find_reference, layout_of
from attune.search.candidates import Candidates, judge
from attune.workload import Workload

SAFE_CHANCE = 0.9
"""A reference that attune picks itself must fit with at least this probability."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A layout and the words on where it comes from."""

    layout: Layout
    source: str


def choose_reference(
    model: Model, cluster: Cluster, candidates: Candidates, asked: Layout | None, source: str = ""
) -> Reference:
    """The asked reference, else the published one moved here, else the rule of thumb."""
    if asked is not None:
        return Reference(layout=asked, source=source)
    published = find_reference(model.id, cluster.gpu.id)
    if published is None:
        return rule_of_thumb(candidates)
    wanted = layout_of(published)
    moved = nearest_safe(wanted, candidates)
    name = f"{published.author.name}'s recipe for {published.gpu.count} {published.gpu.type}"
    if moved == wanted:
        return Reference(layout=moved, source=name)
    return Reference(
        layout=moved, source=f"{name} ({write_layout(wanted)}), moved to the nearest that fits here"
    )


def nearest_safe(layout: Layout, candidates: Candidates) -> Layout:
    """The candidate most like `layout` that surely fits; the surest where none does."""
    safe = candidates.table.take(_safe(candidates))
    return safe.row(nearest_layout(layout, safe))


def _safe(candidates: Candidates) -> Bools:
    """[n] rows that surely fit, or the surest where none does."""
    safe: Bools = candidates.p_fits >= min(SAFE_CHANCE, float(candidates.p_fits.max()))
    return safe


def rule_of_thumb(candidates: Candidates) -> Reference:
    """The least model parallelism that surely fits, with nothing clever switched on.

    One row per microbatch, no interleaving, no context parallelism, no offload unless nothing
    fits without; then the smallest TP x PP, then the smallest EP, then the least recompute.
    """
    t = candidates.table
    cleverness = (
        (t.rows_per_microbatch > 1).astype(int)
        + (t.vpp > 1)
        + (t.cp > 1)
        + (t.optimizer_offload > 0)
        + t.overlap_experts
        + t.overlap_shared_experts
        + (t.dispatcher > 0)
    )
    unsafe = ~_safe(candidates)
    order = np.lexsort((t.etp, t.recompute, t.ep, t.tp, t.tp * t.pp, cleverness, unsafe))
    return Reference(
        layout=t.row(int(order[0])),
        source="rule of thumb: the least model parallelism that fits, nothing clever",
    )


def with_reference(
    model: Model,
    cluster: Cluster,
    workload: Workload,
    candidates: Candidates,
    reference: Layout,
    calibration: Calibration = NO_CALIBRATION,
    framework: str = "megatron-core",
    framework_version: str | None = None,
) -> Candidates:
    """`candidates`, with the reference's row added when the space does not hold it.

    Raises:
        AttuneError: the reference breaks a rule on this cluster; the cure is named.
    """
    if candidates.find(reference) is not None:
        return candidates
    setting = Setting.of(model, cluster, workload, framework, framework_version)
    broken = broken_rules(setting, reference)
    if broken:
        raise AttuneError(
            f"the reference `{write_layout(reference)}` cannot run here: {broken[0].message}; "
            f"{broken[0].cure}"
        )
    table = LayoutTable.of([reference])
    added = judge(model, cluster, workload, table, calibration, framework=framework)
    return candidates.having(added)
