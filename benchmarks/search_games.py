"""What a search method plays: candidates, a truth that it cannot see, and what it has paid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from attune.catalog import load_cluster, load_model
from attune.layout.space import default_space, load_space
from attune.layout.table import Bools, Floats
from attune.search.candidates import Candidates, find_candidates
from attune.search.reference import rule_of_thumb
from attune.trial.result import RankMemory, Step, TrialResult
from attune.virtual import Performance, VirtualCluster
from attune.workload import Workload
from benchmarks.virtual import KINDS, rank_correlation

CLUSTERS = {
    "glm-4.5": ("h200", 128),
    "glm-5.2": ("b200", 64),
    "deepseek-v3": ("h100", 256),
    "llama-3.1-70b": ("h100", 64),
    "qwen3-30b-a3b": ("h100", 16),
}
CAP_PERCENT = 900.0
"""Regret that counts where nothing fitted yet."""
NEAR_PERCENT = 2.0
"""How close to the best counts as found."""


@dataclass
class Game:
    """One cluster to be searched, and what has been paid so far."""

    name: str
    candidates: Candidates
    layers: int
    step_s: Floats
    """[n] true step times, without noise."""
    fits: Bools
    run: Callable[[int], TrialResult]
    """The result of a run of one row; the same for every method."""
    reference: int | None
    """Row that runs before the first trial and does not count."""
    trials: int
    seed: int
    correlation: float = 0.0
    """Rank correlation of prior and truth."""
    tried: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """The same game for the next method."""
        self.tried = []
        self.generator = np.random.default_rng([self.seed, 7])

    @property
    def over(self) -> bool:
        return len(self.tried) >= min(self.trials, len(self.candidates))

    def pay(self, row: int) -> TrialResult:
        """The result of a trial of `row`."""
        self.tried.append(row)
        return self.run(row)

    def regrets_percent(self) -> Floats:
        """[trials] regret after each trial; the last stands where all candidates are tried."""
        best = float(self.step_s[self.fits].min())
        times = np.where(self.fits[self.tried], self.step_s[self.tried], np.inf)
        regrets = 100 * (np.minimum.accumulate(times) / best - 1)
        full = np.full(self.trials, regrets[-1])
        full[: len(regrets)] = regrets
        return np.minimum(full, CAP_PERCENT)

    def trials_to_near(self) -> int:
        """Trials until a layout within `NEAR_PERCENT` of the best; one more than all if never."""
        near = np.flatnonzero(self.regrets_percent() <= NEAR_PERCENT)
        return int(near[0]) + 1 if len(near) else self.trials + 1

    @property
    def out_of_memory_percent(self) -> float:
        return 100 * float(np.mean(~self.fits[self.tried]))


def virtual_games(name: str, kind: str, seeds: range, trials: int) -> Iterator[Game]:
    """A virtual cluster for each seed on which anything fits."""
    gpu, count = CLUSTERS[name]
    model, cluster, workload = load_model(name), load_cluster(gpu, count), Workload()
    space = load_space(default_space(model))
    candidates = find_candidates(model, cluster, workload, space).candidates
    reference = candidates.find(rule_of_thumb(candidates).layout)
    for seed in seeds:
        virtual = VirtualCluster(model, cluster, workload, kind, seed)
        truth = virtual.truth(candidates.table)
        fits = truth.fits
        if not fits.any():
            continue
        yield Game(
            name=f"{name} {kind} {seed}",
            candidates=candidates,
            layers=model.layers,
            step_s=truth.step_s,
            fits=fits,
            run=_runner(virtual, candidates),
            reference=reference,
            trials=trials,
            seed=1000 * KINDS.index(kind) + seed,
            correlation=rank_correlation(candidates.step_s[fits], truth.step_s[fits]),
        )


def _runner(virtual: VirtualCluster, candidates: Candidates) -> Callable[[int], TrialResult]:
    known: dict[int, TrialResult] = {}

    def run(row: int) -> TrialResult:
        if row not in known:
            played = virtual.play(candidates.table.row(row))
            known[row] = _result(played, virtual.workload.steps)
        return known[row]

    return run


def _result(played: Performance, steps: int) -> TrialResult:
    memory = zip(played.allocated_gib, played.reserved_gib, strict=True)
    ranks = [
        RankMemory(rank=stage, stage=stage, allocated_gib=allocated, reserved_gib=reserved)
        for stage, (allocated, reserved) in enumerate(memory)
    ]
    return result_of(played.step_times_s, tuple(ranks), steps, fits=played.out_of_memory is None)


def result_of(
    seconds: tuple[float, ...], ranks: tuple[RankMemory, ...], steps: int, *, fits: bool
) -> TrialResult:
    """The result that a campaign would have got."""
    return TrialResult(
        outcome="completed" if fits else "out_of_memory",
        steps=tuple(Step(step=i, seconds=s) for i, s in enumerate(seconds)),
        ranks=ranks,
        steps_asked=steps,
        tokens_per_step=1,
        gpus=1,
        wall_s=1.0,
        provenance="predicted",
        hardware="virtual",
        launcher="simulated",
    )
