"""The advisor on against off, on the games of `benchmarks.search`.

`python -m benchmarks.search_advisor [--seeds N] [--clusters NAME,...] [--kinds NAME,...]`
"""

from __future__ import annotations

import argparse
import logging
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import optuna

from attune.catalog import Cluster, Model, load_cluster, load_model
from attune.experiment.events import Event, Finished, Judged
from attune.layout import write_layout
from attune.search.advisor import Adviser, Advisor, advise_by_rules
from attune.search.candidates import Candidates
from attune.search.progress import Standing
from attune.search.sampler import FiniteSampler
from attune.search.study import enqueue, tell
from attune.trial.job import Purpose
from attune.trial.result import TrialResult
from attune.workload import Workload
from benchmarks.search_games import CLUSTERS, Game, virtual_games
from benchmarks.virtual import KINDS


@dataclass(frozen=True)
class Inputs:
    """What the advisor reads of a campaign's inputs."""

    model: Model
    cluster: Cluster
    workload: Workload


@dataclass
class GameRuns:
    """The runs of a game, as the advisor sees those of a campaign."""

    inputs: Inputs
    candidates: Candidates
    study: Any
    events: list[Event] = field(default_factory=list)
    results: dict[int, TrialResult] = field(default_factory=dict)

    @property
    def standing(self) -> Standing:
        return Standing(self.events, self.candidates.limit_gib)

    def record(self, event: Event) -> Event:
        self.events.append(event)
        return event

    def result(self, run: int) -> TrialResult | None:
        return self.results.get(run)

    def ran(self, row: int, purpose: Purpose, result: TrialResult) -> None:
        """Notes a run that ended."""
        number = len(self.results)
        self.results[number] = result
        time = result.step_time_s if result.outcome == "completed" else None
        self.events.append(
            Finished(
                run=number,
                purpose=purpose,
                layout=write_layout(self.candidates.table.row(row)),
                outcome=result.outcome,
                step_time_s=time,
                step_time_cv_percent=result.step_time_cv_percent,
                tokens_per_s_per_gpu=1 / time if time else None,
                peak_gib=result.peak_reserved_gib,
                gpu_hours=0.0,
                predicted=self.candidates.prediction(row),
                provenance="predicted",
            )
        )


def play(game: Game, adviser: Adviser | None) -> list[Event]:
    """Plays a game as a campaign would; its events."""
    sampler = FiniteSampler(game.candidates, game.layers)
    study = optuna.create_study(sampler=sampler)
    gpu, count = CLUSTERS[game.name.split()[0]]
    inputs = Inputs(load_model(game.name.split()[0]), load_cluster(gpu, count), Workload())
    runs = GameRuns(inputs, game.candidates, study)
    advisor = Advisor(runs, adviser)  # type: ignore[arg-type]
    if game.reference is not None:
        _run(runs, sampler, game.reference, "reference", game.run(game.reference))
    first = game.candidates.first_choice()
    if first != game.reference:
        enqueue(study, sampler.parameters.of(first), "benchmark")
    while not game.over:
        for _ in advisor.events(sampler.scores(study)):
            pass
        trial = study.ask(sampler.parameters.distributions())
        row = sampler.parameters.row(trial.params)
        assert row is not None
        result = game.pay(row)
        tell(study, trial.number, result, game.candidates.limit_gib)
        runs.ran(row, "candidate", result)
    return runs.events


def _run(
    runs: GameRuns, sampler: FiniteSampler, row: int, purpose: Purpose, result: TrialResult
) -> None:
    enqueue(runs.study, sampler.parameters.of(row), "benchmark")
    trial = runs.study.ask(sampler.parameters.distributions())
    tell(runs.study, trial.number, result, runs.candidates.limit_gib)
    runs.ran(row, purpose, result)


def main() -> None:
    """Prints both columns by kind of cluster."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--clusters", default=",".join(CLUSTERS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    optuna.logging.set_verbosity(logging.ERROR)
    for kind in given.kinds.split(","):
        regrets: dict[str, list[Any]] = {"off": [], "on": []}
        out: dict[str, list[float]] = {"off": [], "on": []}
        verdicts: dict[str, int] = {}
        for name in given.clusters.split(","):
            for game in virtual_games(name, kind, range(given.seeds), given.trials):
                for word, adviser in (("off", None), ("on", advise_by_rules)):
                    game.restart()
                    for event in play(game, adviser):
                        if isinstance(event, Judged):
                            verdicts[event.verdict] = verdicts.get(event.verdict, 0) + 1
                    regrets[word].append(game.regrets_percent())
                    out[word].append(game.out_of_memory_percent)
        for word, curves in regrets.items():
            mean = np.mean(curves, axis=0)
            print(
                f"{kind:12} advisor {word:3}: regret {mean[4]:.2f} % at 5, "
                f"{mean[min(9, len(mean) - 1)]:.2f} % at 10, {mean[-1]:.2f} % at {len(mean)}, "
                f"out of memory {np.mean(out[word]):.1f} %, {len(curves)} games",
                flush=True,
            )
        differences = np.array(regrets["on"])[:, -1] - np.array(regrets["off"])[:, -1]
        error = differences.std() / np.sqrt(len(differences))
        print(
            f"{kind:12} on - off at the end: {differences.mean():+.2f} +- {error:.2f}; {verdicts}"
        )


if __name__ == "__main__":
    main()
