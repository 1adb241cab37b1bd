"""Real landscapes by replay: groups of published measurements, searched without a GPU.

A group is one problem (model, GPUs, batch, sequence, precision) of one source with at least
`FEWEST` measured layouts. The estimator's terms for it are fitted on the rows of the same source
and GPU architecture whose model is another, so nothing of the group is known beforehand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np

from attune.layout import LayoutTable
from attune.layout.layout import Layout
from attune.layout.table import Floats
from attune.search.candidates import Candidates
from attune.search.features import time_shares
from attune.trial.result import TrialResult
from benchmarks.cases import MEASUREMENTS, Case, read_cases
from benchmarks.predict import Prediction
from benchmarks.search_games import Game, result_of
from benchmarks.terms import calibrated

FEWEST = 8
"""Measured layouts that make a landscape."""
_METRIC = "step_time_s"
"""The one metric replayed: a source that publishes two gives the same runs twice."""


def landscapes(seeds: range) -> Iterator[Game]:
    """Every group, once for each seed (which only methods that draw at random feel)."""
    cases, _ = read_cases(MEASUREMENTS, (_METRIC,))
    predictions, _ = calibrated(cases, "terms", leave_out=True)
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, case in enumerate(cases):
        groups[(case.file, *map(str, case.fields))].append(index)
    for name, rows in sorted(groups.items()):
        some = [cases[i] for i in rows]
        if len({case.layout for case in some}) >= FEWEST:
            for seed in seeds:
                yield _game(" ".join(name), some, [predictions[i] for i in rows], seed)


def _game(name: str, cases: list[Case], predictions: list[Prediction], seed: int) -> Game:
    """The layouts of one group; repeats of a layout count as one with their mean."""
    layouts = list(dict.fromkeys(case.layout for case in cases))
    measured: dict[Layout, list[float]] = defaultdict(list)
    for case in cases:
        measured[case.layout].append(case.value)
    step_s = np.array([float(np.mean(measured[layout])) for layout in layouts])
    first = [next(i for i, c in enumerate(cases) if c.layout == layout) for layout in layouts]
    return Game(
        name=name,
        candidates=_candidates(cases[0], layouts, [predictions[i] for i in first]),
        layers=cases[0].model.layers,
        step_s=step_s,
        fits=np.ones(len(layouts), dtype=np.bool_),
        run=_runner(step_s),
        reference=None,
        trials=len(layouts),
        seed=seed,
    )


def _candidates(case: Case, layouts: list[Layout], predictions: list[Prediction]) -> Candidates:
    """What was run did fit, so memory decides nothing here."""
    size = len(layouts)
    values = np.array([prediction.value for prediction in predictions])
    spread = np.exp([1.2816 * prediction.sigma for prediction in predictions])
    limit = case.cluster.gpu.memory_gib
    return Candidates(
        table=LayoutTable.of(layouts),
        step_s=values,
        low_s=values / spread,
        high_s=values * spread,
        reserved_gib=np.full(size, limit / 2),
        device_gib=np.full(size, limit / 2),
        p_fits=np.ones(size),
        stage=np.zeros(size, dtype=np.int64),
        time_shares=time_shares(_parts(predictions)),
        memory_shares=np.zeros((size, 4)),
        limit_gib=limit,
    )


def _parts(predictions: list[Prediction]) -> dict[str, Floats]:
    names = predictions[0].parts
    return {name: np.array([p.parts[name] for p in predictions]) for name in names}


def _runner(step_s: Floats) -> Callable[[int], TrialResult]:
    def run(row: int) -> TrialResult:
        return result_of((float(step_s[row]),) * 4, (), 4, fits=True)

    return run
