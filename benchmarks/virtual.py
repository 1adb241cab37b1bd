"""How far the virtual clusters stand from the estimator's prior.

For each kind, over the seeds: how often the layout that the estimator likes best is the best in
truth, how much slower it is where it fits, and the rank correlation of prior and truth.

python -m benchmarks.virtual --json
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from attune.catalog import Cluster, Model, load_cluster, load_model
from attune.estimate import estimate_memory, estimate_step_time
from attune.layout import LayoutTable
from attune.layout.rules import Setting, check
from attune.layout.space import default_space, enumerate_layouts, load_space
from attune.layout.table import Bools, Floats, Ints
from attune.virtual import VirtualCluster
from attune.workload import Workload

KINDS = ("near", "far", "adversarial")


@dataclass(frozen=True, kw_only=True, slots=True)
class Prior:
    """What the estimator says of the legal layouts that it does not rule out."""

    table: LayoutTable
    step_s: Floats
    first_choice: int
    """The row that it would run first: fastest of those that fit more likely than not."""


def prior(model: Model, cluster: Cluster, workload: Workload) -> Prior:
    """The estimator's opinion of the model's default space."""
    drawn = enumerate_layouts(load_space(default_space(model)), model, cluster.count)
    table = drawn.table.take(check(Setting.of(model, cluster, workload), drawn.table).legal)
    memory = estimate_memory(model, cluster, workload, table)
    kept: Bools = memory.p_fits >= 0.01
    fits = memory.p_fits[kept] > 0.5
    table = table.take(kept)
    step_s = estimate_step_time(model, cluster, workload, table).total
    first_choice = int(np.argmin(np.where(fits, step_s, np.inf)))
    return Prior(table=table, step_s=step_s, first_choice=first_choice)


def compare(believed: Prior, virtual: VirtualCluster) -> dict[str, float]:
    """One virtual cluster against the prior."""
    truth = virtual.truth(believed.table)
    fitting = np.flatnonzero(truth.fits)
    if not len(fitting):
        return {"best": 0.0, "fits": 0.0, "slower_percent": np.nan, "correlation": np.nan}
    best = float(truth.step_s[fitting].min())
    choice = believed.first_choice
    own, fits = float(truth.step_s[choice]), bool(truth.fits[choice])
    return {
        "best": float(fits and own <= best),
        "fits": float(fits),
        "slower_percent": 100 * (own / best - 1) if fits else np.nan,
        "correlation": rank_correlation(believed.step_s[fitting], truth.step_s[fitting]),
    }


def rank_correlation(first: Floats, second: Floats) -> float:
    """Spearman's rho."""
    return float(np.corrcoef(_ranks(first), _ranks(second))[0, 1])


def _ranks(values: Floats) -> Ints:
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values))
    return ranks


def measure(model: str, gpu: str, count: int, seeds: int) -> dict[str, Any]:
    """Means over the seeds, by kind."""
    data, cluster, workload = load_model(model), load_cluster(gpu, count), Workload()
    believed = prior(data, cluster, workload)
    report: dict[str, Any] = {"layouts": len(believed.table), "seeds": seeds}
    for kind in KINDS:
        begin = time.perf_counter()
        rows = [
            compare(believed, VirtualCluster(data, cluster, workload, kind, seed))
            for seed in range(seeds)
        ]
        correlations = [row["correlation"] for row in rows]
        report[kind] = {
            "first_choice_is_best": float(np.mean([row["best"] for row in rows])),
            "first_choice_fits": float(np.mean([row["fits"] for row in rows])),
            "first_choice_slower_percent": float(
                np.nanmedian([row["slower_percent"] for row in rows])
            ),
            "rank_correlation": float(np.nanmean(correlations)),
            "rank_correlation_range": [
                float(np.nanmin(correlations)),
                float(np.nanmax(correlations)),
            ],
            "truth_s": (time.perf_counter() - begin) / seeds,
        }
    return report


def main() -> None:
    """Prints the comparison, one line a kind, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="glm-4.5")
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--count", type=int, default=128)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    report = measure(given.model, given.gpu, given.count, given.seeds)
    if given.json:
        print(json.dumps(report, indent=2))
        return
    print(f"{given.model} on {given.count} {given.gpu}: {report['layouts']} layouts")
    for kind in KINDS:
        row = report[kind]
        low, high = row["rank_correlation_range"]
        print(
            f"{kind:12} first choice is the true best in {row['first_choice_is_best']:.0%} of "
            f"{given.seeds} seeds, fits in {row['first_choice_fits']:.0%}, median "
            f"{row['first_choice_slower_percent']:.1f} % slower; rank correlation "
            f"{row['rank_correlation']:.2f} ({low:.2f} to {high:.2f})"
        )


if __name__ == "__main__":
    main()
