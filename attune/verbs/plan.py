"""Just tell me the layout: the funnel and the best predicted layouts, without a trial."""

from __future__ import annotations

import numpy as np

from attune.errors import NothingFoundError
from attune.layout.rules import Setting
from attune.layout.space import Space, default_space, load_space
from attune.report.plan import Funnel, Plan
from attune.search.candidates import Candidates, find_candidates
from attune.search.closest import explain_closest
from attune.verbs.suggest import LIKELY, suggestions
from attune.verbs.target import Target

_ALIKE_STEP = 0.01
"""Difference of the log of step time below which two layouts count as equally fast: two runs of
one layout differ as much."""
_ALIKE_MEMORY = 0.05
"""The same of memory; no estimate is surer than that."""


def plan(
    target: Target,
    *,
    space: str | Space | None = None,
    best: int = 10,
    framework: str = "megatron-core",
    version: str | None = None,
) -> Plan:
    """The `best` layouts of `space` that the estimator predicts to train fastest, without twins.

    Args:
        target: model, cluster and workload.
        space: a search space, by name, path or itself; None takes the model's.
        best: how many to give.
        framework: what would train; its own rules hold too.
        version: of the framework; None is the catalogue's.

    Raises:
        AttuneError: no such space, or a damaged file.
        NothingFoundError: no layout is legal, or none is likely to fit.
    """
    drawn = space if isinstance(space, Space) else load_space(space or default_space(target.model))
    found = find_candidates(
        target.model,
        target.cluster,
        target.workload,
        drawn,
        framework=framework,
        framework_version=version,
    )
    order = _best_first(found.candidates)
    if not len(order):
        setting = Setting.of(target.model, target.cluster, target.workload, framework, version)
        judged = found.candidates
        raise NothingFoundError(
            explain_closest(setting, target.cluster, judged.table, judged.device_gib)
        )
    return Plan(
        model=target.model.name,
        asked_model=target.asked_model or target.model.name,
        gpu=target.cluster.gpu.name,
        count=target.cluster.count,
        workload=target.workload,
        space=drawn.name,
        funnel=Funnel(
            drawn=found.drawn,
            legal=found.legal,
            fitting=found.fitting,
            broken={rule: number for rule, number in found.cut.items() if number},
        ),
        best=suggestions(
            target,
            found.candidates.table.take(_unlike(found.candidates, order, best)),
            framework=framework,
        ),
    )


def _best_first(candidates: Candidates) -> np.ndarray:
    """Rows likely to fit, by expected speed: P(fits) over step time."""
    likely = np.flatnonzero(candidates.p_fits >= LIKELY)
    speed = candidates.p_fits[likely] / candidates.step_s[likely]
    return likely[np.argsort(-speed, kind="stable")]


def _unlike(candidates: Candidates, order: np.ndarray, most: int) -> np.ndarray:
    """The first `most` rows of `order` without twins: same pipeline, tensor degree and estimates.

    Knobs that do next to nothing for this model would otherwise fill the list.
    """
    table = candidates.table
    kept: list[int] = []
    step, memory = np.log(candidates.step_s), np.log(candidates.device_gib)
    while len(order) and len(kept) < most:
        first = int(order[0])
        kept.append(first)
        twin = np.abs(step[order] - step[first]) < _ALIKE_STEP
        twin &= np.abs(memory[order] - memory[first]) < _ALIKE_MEMORY
        for degree in (table.tp, table.pp, table.vpp):
            twin &= degree[order] == degree[first]
        order = order[~twin]
    return np.array(kept, dtype=np.int64)
