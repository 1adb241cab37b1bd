"""Ways to choose the next layout: attune's own, and the baselines that it is held against."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import optuna

from attune.layout.table import Floats
from attune.search.features import features
from attune.search.sampler import FiniteSampler
from attune.search.study import Parameters, enqueue, tell
from attune.trial.result import TrialResult
from benchmarks.search_games import Game

Method = Callable[[Game], None]
_MISSES = 100
"""Draws that are illegal or repeats, after which a stock sampler gets a random layout."""


def attune(game: Game) -> None:
    """Ours: the reference first, then the estimator's first choice, then the sampler."""
    sampler = FiniteSampler(game.candidates, game.layers)
    study = optuna.create_study(sampler=sampler)
    if game.reference is not None:
        _play(study, sampler.parameters, game, game.reference, game.run)
    first = game.candidates.first_choice()
    if first != game.reference:
        _play(study, sampler.parameters, game, first, game.pay)
    while not game.over:
        trial = study.ask(sampler.parameters.distributions())
        row = sampler.parameters.row(trial.params)
        assert row is not None
        tell(study, trial.number, game.pay(row), game.candidates.limit_gib)


def _play(
    study: optuna.Study,
    parameters: Parameters,
    game: Game,
    row: int,
    run: Callable[[int], TrialResult],
) -> None:
    """Runs one row and tells the study."""
    enqueue(study, parameters.of(row), "benchmark")
    trial = study.ask(parameters.distributions())
    tell(study, trial.number, run(row), game.candidates.limit_gib)


def random_legal(game: Game) -> None:
    """Any candidate, each as likely."""
    _in_order(game, game.generator.permutation(len(game.candidates)))


def estimator_top(game: Game) -> None:
    """The estimator's own order, those likely to fit first."""
    _in_order(game, _prior_order(game))


def configurator_grid(game: Game) -> None:
    """The order of NeMo's configurator: TP, then PP, CP, EP, then rows, memory permitting."""
    t, fits = game.candidates.table, game.candidates.p_fits < 0.5
    _in_order(game, np.lexsort((t.rows_per_microbatch, t.ep, t.cp, t.pp, t.tp, fits)))


def _in_order(game: Game, order: np.ndarray[Any, Any]) -> None:
    for row in order.tolist():
        if game.over:
            return
        game.pay(row)


def hill_climb(game: Game) -> None:
    """From the estimator's best, one knob at a time, moving on whatever is faster."""
    points = features(game.candidates.table, game.layers)
    starts = _prior_order(game)
    while not game.over:
        here = int(next(row for row in starts if row not in game.tried))
        time = _seconds(game.pay(here))
        while not game.over and (step := _climb(game, points, here, time)) is not None:
            here, time = step


def _climb(game: Game, points: Floats, here: int, time: float) -> tuple[int, float] | None:
    near = np.flatnonzero((points != points[here]).sum(axis=1) <= 2)
    order = near[np.argsort(game.candidates.step_s[near], kind="stable")][:12]
    for row in order.tolist():
        if row in game.tried or game.over:
            continue
        seconds = _seconds(game.pay(row))
        if seconds < time * 0.995:
            return row, seconds
    return None


def tpe(game: Game) -> None:
    """Optuna's TPE as it comes; illegal draws are rejected for free."""
    _optuna(game, optuna.samplers.TPESampler(seed=_seed(game)), [])


def tpe_enqueued(game: Game) -> None:
    """TPE with the estimator's eight best enqueued."""
    best = _prior_order(game)[:8].tolist()
    _optuna(game, optuna.samplers.TPESampler(seed=_seed(game), n_startup_trials=8), best)


def _optuna(game: Game, sampler: Any, first: list[int]) -> None:
    parameters = Parameters(game.candidates.table)
    study = optuna.create_study(sampler=sampler)
    for row in first[: game.trials]:
        if not game.over:
            _play(study, parameters, game, row, game.pay)
    misses = 0
    while not game.over:
        trial = study.ask(parameters.distributions())
        row = parameters.row(trial.params)
        if row is not None and row not in game.tried:
            tell(study, trial.number, game.pay(row), game.candidates.limit_gib)
            continue
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
        misses += 1
        if misses % _MISSES == 0:
            # Stock samplers may never leave what they have drawn; a random layout helps.
            _play(study, parameters, game, _untried(game), game.pay)


def gaussian_process(game: Game) -> None:
    """Optuna's GPSampler as it comes; each draw is moved to the nearest untried candidate."""
    parameters = Parameters(game.candidates.table)
    distributions = parameters.distributions()
    rows = range(len(game.candidates))
    codes = np.array([_code(parameters.of(row), distributions) for row in rows])
    study = optuna.create_study(sampler=optuna.samplers.GPSampler(seed=_seed(game)))
    while not game.over:
        trial = study.ask(distributions)
        far = np.abs(codes - _code(trial.params, distributions)).sum(axis=1)
        far[game.tried] = np.inf
        row = int(np.argmin(far))
        if parameters.of(row) != trial.params:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            _play(study, parameters, game, row, game.pay)
        else:
            tell(study, trial.number, game.pay(row), game.candidates.limit_gib)


def _code(parameters: dict[str, Any], distributions: dict[str, Any]) -> list[int]:
    """Places of the values in the sorted choices of each parameter."""
    return [known.choices.index(parameters[name]) for name, known in distributions.items()]


def _untried(game: Game) -> int:
    row = int(game.generator.integers(len(game.candidates)))
    while row in game.tried:
        row = int(game.generator.integers(len(game.candidates)))
    return row


METHODS: dict[str, Method] = {
    "attune": attune,
    "random": random_legal,
    "estimator top-k": estimator_top,
    "hill climb": hill_climb,
    "TPE": tpe,
    "TPE + top 8": tpe_enqueued,
    "GP": gaussian_process,
    "configurator grid": configurator_grid,
}


def _prior_order(game: Game) -> np.ndarray[Any, Any]:
    c = game.candidates
    return np.lexsort((c.step_s, c.p_fits < 0.5))


def _seconds(result: TrialResult) -> float:
    return result.step_time_s or float("inf")


def _seed(game: Game) -> int:
    return int(game.generator.integers(2**31))
