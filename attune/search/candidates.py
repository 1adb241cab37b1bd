"""From a search space to the candidates: drawn, legal, fitting, with the estimator's word."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from attune.catalog import Cluster, Model
from attune.errors import NothingFoundError
from attune.estimate import estimate_memory, estimate_step_time
from attune.estimate.calibration import NO_CALIBRATION, Calibration
from attune.experiment.events import Prediction
from attune.layout import Layout, LayoutTable
from attune.layout.rules import Setting, check
from attune.layout.space import Space, enumerate_layouts
from attune.layout.table import COLUMNS, Floats, Ints
from attune.search.closest import explain_closest
from attune.search.features import memory_shares, time_shares
from attune.workload import Workload

LEAST_CHANCE = 0.01
"""Layouts with a smaller P(fits) are never tried (research on the memory edge: the winner is often
predicted just over the limit, so a hard cut at the limit would lose it)."""

_PREDICTED = (
    "step_s",
    "low_s",
    "high_s",
    "reserved_gib",
    "device_gib",
    "p_fits",
    "stage",
    "time_shares",
    "memory_shares",
)
"""Columns of `Candidates` beside the table."""


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """The finite list of layouts that a campaign may try."""

    table: LayoutTable
    step_s: Floats
    """[n] predicted step time."""
    low_s: Floats
    high_s: Floats
    """[n] bounds of its 80 % interval."""
    reserved_gib: Floats
    """[n] predicted reserved memory of the worst stage."""
    device_gib: Floats
    """[n] predicted device memory of the worst stage."""
    p_fits: Floats
    """[n] predicted probability of fitting."""
    stage: Ints
    """[n] stage predicted to need most memory."""
    time_shares: Floats
    """[n, multipliers] share of the step time that each multiplier scales."""
    memory_shares: Floats
    """[n, 4] shares of the memory that err together (`features.memory_shares`)."""
    limit_gib: float
    """Memory of one GPU."""

    def __len__(self) -> int:
        return len(self.table)

    def prediction(self, index: int) -> Prediction:
        """The estimator's word on row `index`."""
        return Prediction(
            step_s=float(self.step_s[index]),
            low_s=float(self.low_s[index]),
            high_s=float(self.high_s[index]),
            peak_gib=float(self.device_gib[index]),
            p_fits=float(self.p_fits[index]),
        )

    def first_choice(self) -> int:
        """Row that the estimator alone would pick: the largest P(fits) over step time.

        Among those with P(fits) of at least one half, where there are any.
        """
        likely = self.p_fits >= 0.5
        pool = likely if likely.any() else self.p_fits >= self.p_fits.max()
        return int(np.argmax(np.where(pool, self.p_fits / self.step_s, 0.0)))

    def digest(self) -> str:
        """Digest of the layouts, in order."""
        sha = hashlib.sha256(repr(self.table.pipeline_layouts).encode())
        for name in COLUMNS:
            sha.update(np.ascontiguousarray(getattr(self.table, name)).tobytes())
        return sha.hexdigest()

    def take(self, index: Any) -> Candidates:
        """The rows of `index`."""
        return Candidates(
            table=self.table.take(index),
            limit_gib=self.limit_gib,
            **{name: getattr(self, name)[index] for name in _PREDICTED},
        )

    def having(self, others: Candidates) -> Candidates:
        """These rows, then those of `others`."""
        return Candidates(
            table=LayoutTable.concatenate([self.table, others.table]),
            limit_gib=self.limit_gib,
            **{n: np.concatenate([getattr(self, n), getattr(others, n)]) for n in _PREDICTED},
        )

    def find(self, layout: Layout) -> int | None:
        """Row of `layout`, or None."""
        wanted = LayoutTable.of([layout])
        same = np.ones(len(self), dtype=bool)
        for name in COLUMNS:
            if name != "pipeline_layout":
                same &= getattr(self.table, name) == getattr(wanted, name)[0]
        rows = [i for i in np.flatnonzero(same).tolist() if self.table.row(i) == layout]
        return rows[0] if rows else None


@dataclass(frozen=True, kw_only=True)
class Funnel:
    """The candidates and how they were reached."""

    candidates: Candidates
    drawn: int
    legal: int
    fitting: int
    cut: dict[str, int]


def judge(
    model: Model,
    cluster: Cluster,
    workload: Workload,
    table: LayoutTable,
    calibration: Calibration = NO_CALIBRATION,
    framework: str = "megatron-core",
) -> Candidates:
    """The estimator's word on every row of `table`, legal or not."""
    memory = estimate_memory(model, cluster, workload, table, calibration, framework)
    time = estimate_step_time(model, cluster, workload, table, calibration, framework)
    return Candidates(
        table=table,
        step_s=time.total,
        low_s=time.low,
        high_s=time.high,
        reserved_gib=memory.reserved.max(axis=1),
        device_gib=memory.peak_gib,
        p_fits=memory.p_fits,
        stage=memory.stage,
        time_shares=time_shares(time.parts),
        memory_shares=memory_shares(memory, table),
        limit_gib=memory.limit_gib,
    )


def find_candidates(
    model: Model,
    cluster: Cluster,
    workload: Workload,
    space: Space,
    fixed: dict[str, Any] | None = None,
    calibration: Calibration = NO_CALIBRATION,
    framework: str = "megatron-core",
    framework_version: str | None = None,
) -> Funnel:
    """Draws the space, drops what breaks a rule, then what surely does not fit.

    Layouts that the framework cannot express break a rule of theirs.

    Raises:
        NothingFoundError: no legal layout (the commonest rules are named), or none that fits
            (how far off the closest is, and which knob would make it fit).
    """
    drawn = enumerate_layouts(space, model, cluster.count, fixed)
    setting = Setting.of(model, cluster, workload, framework, framework_version)
    judgement = check(setting, drawn.table)
    cut = dict(drawn.cut)
    for rule, number in judgement.counts().items():
        cut[rule] = cut.get(rule, 0) + number
    if not judgement.legal.any():
        raise NothingFoundError(_no_legal(drawn.drawn, cut))
    legal = drawn.table.take(judgement.legal)
    judged = judge(model, cluster, workload, legal, calibration, framework=framework)
    keep = judged.p_fits >= LEAST_CHANCE
    if not keep.any():
        raise NothingFoundError(explain_closest(setting, cluster, legal, judged.device_gib))
    return Funnel(
        candidates=judged.take(keep),
        drawn=drawn.drawn,
        legal=len(legal),
        fitting=int((judged.p_fits >= 0.5).sum()),
        cut=dict(sorted(cut.items(), key=lambda item: -item[1])),
    )


def _no_legal(drawn: int, cut: dict[str, int]) -> str:
    worst = sorted(cut.items(), key=lambda item: -item[1])[:3]
    rules = ", ".join(f"{rule} ({number})" for rule, number in worst)
    return (
        f"none of {drawn} layouts drawn is legal; the rules that refuse most: {rules}. "
        "Widen the space, or change the count or the global batch"
    )
