"""How few trials the search needs, against baselines.

Virtual clusters: regret after k trials is the true step time of the best layout that fitted and
was tried, over the true best of the candidates, minus one. Every method searches the same
candidates, meets the same noise, and begins after the same reference run, which does not count as
a trial. Real landscapes: trials until a layout within 2 % of the best measured; every run counts.

`python -m benchmarks.search [--seeds N] [--json FILE] [--page docs/search.md] [--trials 20]
[--clusters NAME,...] [--kinds NAME,...] [--methods NAME,...] [--first-seed N] [--read FILE]`

With `--read` (may be repeated) nothing is played: the JSON of earlier runs is put together.
"""

from __future__ import annotations

import argparse
import json
import logging
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import optuna

from benchmarks.search_games import CLUSTERS, Game, virtual_games
from benchmarks.search_landscapes import landscapes
from benchmarks.search_methods import METHODS
from benchmarks.search_page import write_page
from benchmarks.virtual import KINDS

FORMER = 10
"""Regret is told after so many trials, and after all."""
LANDSCAPES = "landscapes"


def measure_clusters(
    kind: str, names: list[str], methods: list[str], seeds: range, trials: int
) -> dict[str, Any]:
    """Figures of each method over clusters and seeds of one kind."""
    played: dict[str, list[tuple[np.ndarray[Any, Any], float]]] = {m: [] for m in methods}
    correlations: dict[str, list[float]] = {name: [] for name in names}
    for name in names:
        for game in virtual_games(name, kind, seeds, trials):
            correlations[name].append(game.correlation)
            for method in methods:
                _play(game, method)
                played[method].append((game.regrets_percent(), game.out_of_memory_percent))
    return {
        "methods": {m: _regrets(rows) for m, rows in played.items()},
        "about": {
            "seeds": [seeds.start, seeds.stop - 1],
            "games": len(played[methods[0]]),
            "rank_correlation": {name: _mean(found) for name, found in correlations.items()},
        },
    }


def measure_landscapes(methods: list[str], seeds: range) -> dict[str, Any]:
    """Figures of each method over the groups of published measurements."""
    played: dict[str, list[int]] = {m: [] for m in methods}
    names = set()
    for game in landscapes(seeds):
        names.add(game.name)
        for method in methods:
            _play(game, method)
            played[method].append(game.trials_to_near())
    return {
        "methods": {
            method: {
                "median_trials_to_2pct": float(np.median(found)),
                "p90_trials_to_2pct": float(np.percentile(found, 90)),
            }
            for method, found in played.items()
        },
        "about": {"seeds": [seeds.start, seeds.stop - 1], "groups": len(names)},
    }


def _play(game: Game, method: str) -> None:
    game.restart()
    METHODS[method](game)


def _regrets(rows: list[tuple[np.ndarray[Any, Any], float]]) -> dict[str, Any]:
    curves = np.array([curve for curve, _ in rows])
    mean, high = curves.mean(axis=0), np.percentile(curves, 90, axis=0)
    former = min(FORMER, len(mean)) - 1
    return {
        f"regret_pct_at_{FORMER}": float(mean[former]),
        "regret_pct_at_20": float(mean[-1]),
        f"regret_pct_at_{FORMER}_p90": float(high[former]),
        "regret_pct_at_20_p90": float(high[-1]),
        "standard_error_at_20": float(curves[:, -1].std() / np.sqrt(len(curves))),
        "oom_pct": _mean([out for _, out in rows]),
        "curve": [float(value) for value in mean],
    }


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def tell(report: dict[str, Any]) -> None:
    """Prints what was measured of one kind of cluster, or of the landscapes."""
    print(json.dumps(report["about"]))
    for method, row in report["methods"].items():
        figures = ", ".join(f"{k} {v:.2f}" for k, v in row.items() if k != "curve")
        print(f"  {method:18} {figures}", flush=True)


def as_data(reports: dict[str, Any]) -> dict[str, Any]:
    """The figures by kind and method, and what they rest on."""
    methods = {kind: report["methods"] for kind, report in reports.items()}
    replayed = methods.pop(LANDSCAPES, {})
    about = {kind: report["about"] for kind, report in reports.items()}
    return {"clusters": methods, LANDSCAPES: replayed, "about": about}


def read(paths: list[Path]) -> dict[str, Any]:
    """Reports of earlier runs; of two that hold one kind the later counts."""
    reports: dict[str, Any] = {}
    for path in paths:
        data = json.loads(path.read_text(encoding="utf-8"))
        methods = {**data["clusters"], LANDSCAPES: data[LANDSCAPES]}
        for kind, about in data["about"].items():
            reports[kind] = {"methods": methods[kind], "about": about}
    return reports


def main() -> None:
    """Prints the figures, and writes the JSON and the page asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--clusters", default=",".join(CLUSTERS))
    parser.add_argument("--kinds", default=",".join((*KINDS, LANDSCAPES)))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--read", type=Path, action="append", default=[])
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    optuna.logging.set_verbosity(logging.ERROR)
    reports = read(given.read) if given.read else play(given)
    if given.json:
        given.json.write_text(json.dumps(as_data(reports), indent=1) + "\n", encoding="utf-8")
    if given.page:
        write_page(given.page, reports)


def play(given: argparse.Namespace) -> dict[str, Any]:
    """Measures every kind that is asked for, and prints each as it is done."""
    methods, names = given.methods.split(","), given.clusters.split(",")
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    reports = {}
    for kind in given.kinds.split(","):
        print(kind, flush=True)
        reports[kind] = (
            measure_landscapes(methods, seeds)
            if kind == LANDSCAPES
            else measure_clusters(kind, names, methods, seeds, given.trials)
        )
        tell(reports[kind])
    return reports


if __name__ == "__main__":
    main()
