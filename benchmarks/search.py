"""How few trials the search needs, against baselines, on virtual clusters.

Regret after k trials: the true step time of the best layout that fitted and was tried, over the
true best of the candidates, minus one. Every method searches the same candidates, pays the same
noise, and starts with the same reference run, which does not count as a trial.

`python -m benchmarks.search [--seeds N] [--trials 20] [--clusters NAME,...] [--methods NAME,...]
[--json FILE]`
"""

from __future__ import annotations

import argparse
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import optuna

from attune.catalog import load_cluster, load_model
from attune.layout.space import default_space, load_space
from attune.layout.table import Bools, Floats
from attune.search.candidates import Candidates, find_candidates
from attune.search.reference import rule_of_thumb
from attune.search.residual import features
from attune.search.sampler import FiniteSampler
from attune.search.study import Parameters, tell
from attune.trial.result import RankMemory, Step, TrialResult
from attune.virtual import VirtualCluster
from attune.workload import Workload
from benchmarks.virtual import KINDS, rank_correlation

CLUSTERS = {
    "glm-4.5": ("h200", 128),
    "glm-5.2": ("b200", 64),
    "deepseek-v3": ("h100", 256),
    "llama-3.1-70b": ("h100", 64),
    "qwen3-30b-a3b": ("h100", 16),
}
NOISE = 0.01
"""Run-to-run noise of a trial's step time."""
CAP_PERCENT = 900.0
"""Regret that counts where nothing fitted yet."""


@dataclass
class Game:
    """One virtual cluster to be searched, and what has been paid so far."""

    candidates: Candidates
    layers: int
    step_s: Floats
    peak_gib: Floats
    fits: Bools
    generator: np.random.Generator
    trials: int
    tried: list[int] = field(default_factory=list)

    @property
    def over(self) -> bool:
        return len(self.tried) >= self.trials or len(self.tried) >= len(self.candidates)

    def pay(self, row: int) -> TrialResult:
        """The result of a trial of `row`."""
        self.tried.append(row)
        return self.run(row)

    def run(self, row: int) -> TrialResult:
        seconds = float(self.step_s[row] * np.exp(NOISE * self.generator.standard_normal()))
        peak, fits = float(self.peak_gib[row]), bool(self.fits[row])
        return TrialResult(
            outcome="completed" if fits else "out_of_memory",
            steps=tuple(Step(step=i, seconds=seconds) for i in range(4)) if fits else (),
            ranks=(RankMemory(rank=0, stage=0, allocated_gib=peak, reserved_gib=peak),)
            if fits
            else (),
            steps_asked=4,
            tokens_per_step=1,
            gpus=1,
            wall_s=1.0,
            provenance="predicted",
            hardware="virtual",
            launcher="simulated",
        )

    def regret_percent(self, after: int) -> float:
        """Regret after the first `after` trials."""
        good = [row for row in self.tried[:after] if self.fits[row]]
        if not good:
            return CAP_PERCENT
        best = float(self.step_s[self.fits].min())
        return min(100 * (float(self.step_s[good].min()) / best - 1), CAP_PERCENT)

    @property
    def out_of_memory_percent(self) -> float:
        return 100 * float(np.mean([not self.fits[row] for row in self.tried]))


Method = Callable[[Game], None]


def attune(game: Game) -> None:
    """Ours: the reference first, then the estimator's first choice, then the sampler."""
    sampler = FiniteSampler(game.candidates, game.layers)
    study = optuna.create_study(sampler=sampler)
    reference = game.candidates.find(rule_of_thumb(game.candidates).layout)
    assert reference is not None
    _enqueue(study, sampler.parameters, [reference])
    trial = study.ask(sampler.parameters.distributions())
    tell(study, trial.number, game.run(reference), game.candidates.limit_gib)
    _enqueue(study, sampler.parameters, [game.candidates.first_choice()])
    while not game.over:
        trial = study.ask(sampler.parameters.distributions())
        row = sampler.parameters.row(trial.params)
        assert row is not None
        tell(study, trial.number, game.pay(row), game.candidates.limit_gib)


def random_legal(game: Game) -> None:
    """Any candidate, each as likely."""
    for row in game.generator.permutation(len(game.candidates)):
        if game.over:
            return
        game.pay(int(row))


def estimator_top(game: Game) -> None:
    """The estimator's own order, those likely to fit first."""
    for row in _prior_order(game.candidates):
        if game.over:
            return
        game.pay(int(row))


def hill_climb(game: Game) -> None:
    """From the estimator's best, one knob at a time, moving on whatever is faster."""
    points = features(game.candidates.table, game.layers)
    starts = _prior_order(game.candidates)
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
    best = _prior_order(game.candidates)[:8].tolist()
    _optuna(game, optuna.samplers.TPESampler(seed=_seed(game), n_startup_trials=8), best)


def _optuna(game: Game, sampler: Any, first: list[int]) -> None:
    parameters = Parameters(game.candidates.table)
    study = optuna.create_study(sampler=sampler)
    _enqueue(study, parameters, first)
    misses = 0
    while not game.over:
        trial = study.ask(parameters.distributions())
        row = parameters.row(trial.params)
        if row is None or row in game.tried:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            misses += 1
            if misses % 100 == 0:
                # Stock samplers may never leave what they have drawn; a free random one helps.
                free = game.generator.integers(len(game.candidates))
                _enqueue(study, parameters, [int(free)])
            continue
        tell(study, trial.number, game.pay(row), game.candidates.limit_gib)


def configurator_grid(game: Game) -> None:
    """The order of NeMo's configurator: TP, then PP, CP, EP, then rows, memory permitting."""
    t = game.candidates.table
    fits = game.candidates.p_fits < 0.5
    order = np.lexsort((t.rows_per_microbatch, t.ep, t.cp, t.pp, t.tp, fits))
    for row in order.tolist():
        if game.over:
            return
        game.pay(row)


METHODS: dict[str, Method] = {
    "attune": attune,
    "random": random_legal,
    "estimator top-k": estimator_top,
    "hill climb": hill_climb,
    "TPE": tpe,
    "TPE + top 8": tpe_enqueued,
    "configurator grid": configurator_grid,
}


def _enqueue(study: optuna.Study, parameters: Parameters, rows: list[int]) -> None:
    for row in rows:
        study.enqueue_trial(parameters.of(row), skip_if_exists=True)


def _prior_order(candidates: Candidates) -> np.ndarray[Any, Any]:
    return np.lexsort((candidates.step_s, candidates.p_fits < 0.5))


def _seconds(result: TrialResult) -> float:
    return result.step_time_s or float("inf")


def _seed(game: Game) -> int:
    return int(game.generator.integers(2**31))


def games(name: str, kind: str, seeds: int, trials: int) -> Iterator[tuple[Game, float, int]]:
    """Each seed's game, with the rank correlation of prior and truth."""
    gpu, count = CLUSTERS[name]
    model, cluster, workload = load_model(name), load_cluster(gpu, count), Workload()
    space = load_space(default_space(model))
    candidates = find_candidates(model, cluster, workload, space).candidates
    for seed in range(seeds):
        truth = VirtualCluster(model, cluster, workload, kind, seed).truth(candidates.table)
        if not truth.fits.any():
            continue
        known = rank_correlation(candidates.step_s[truth.fits], truth.step_s[truth.fits])
        game = Game(
            candidates=candidates,
            layers=model.layers,
            step_s=truth.step_s,
            peak_gib=truth.peak_gib.max(axis=1),
            fits=truth.fits,
            generator=np.random.default_rng([seed, KINDS.index(kind)]),
            trials=trials,
        )
        yield game, known, seed


def measure(
    clusters: list[str], kinds: list[str], methods: list[str], seeds: int, trials: int
) -> dict[str, Any]:
    """Mean and 90th percentile of regret by kind and method, over clusters and seeds."""
    report: dict[str, Any] = {}
    for kind in kinds:
        scores: dict[str, list[tuple[float, float, float]]] = {m: [] for m in methods}
        correlations = []
        for name in clusters:
            for game, known, seed in games(name, kind, seeds, trials):
                correlations.append(known)
                for method in methods:
                    game.tried = []
                    game.generator = np.random.default_rng([seed, 7])
                    METHODS[method](game)
                    scores[method].append(
                        (
                            game.regret_percent(10),
                            game.regret_percent(20),
                            game.out_of_memory_percent,
                        )
                    )
        report[kind] = {m: _summary(scores[m]) for m in methods}
        _print(kind, report[kind], float(np.mean(correlations)))
    return report


def _summary(rows: list[tuple[float, float, float]]) -> dict[str, float]:
    values = np.array(rows)
    high = np.percentile(values, 90, axis=0)
    return {
        "regret_pct_at_10": float(values[:, 0].mean()),
        "regret_pct_at_20": float(values[:, 1].mean()),
        "regret_pct_at_10_p90": float(high[0]),
        "regret_pct_at_20_p90": float(high[1]),
        "regret_pct_at_20_standard_error": float(values[:, 1].std() / np.sqrt(len(values))),
        "oom_pct": float(values[:, 2].mean()),
    }


def _print(kind: str, methods: dict[str, dict[str, float]], correlation: float) -> None:
    print(f"{kind}: rank correlation of prior and truth {correlation:.2f}", flush=True)
    for method, row in methods.items():
        print(
            f"  {method:18} regret at 10 {row['regret_pct_at_10']:6.2f} % (90th percentile "
            f"{row['regret_pct_at_10_p90']:6.2f}), at 20 {row['regret_pct_at_20']:6.2f} % "
            f"({row['regret_pct_at_20_p90']:6.2f}), out of memory {row['oom_pct']:4.1f} %",
            flush=True,
        )


def main() -> None:
    """Prints a table by kind and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--clusters", default=",".join(CLUSTERS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    optuna.logging.set_verbosity(logging.ERROR)
    report = measure(
        given.clusters.split(","),
        given.kinds.split(","),
        given.methods.split(","),
        given.seeds,
        given.trials,
    )
    if given.json:
        given.json.write_text(json.dumps({"clusters": report}, indent=1) + "\n")


if __name__ == "__main__":
    main()
