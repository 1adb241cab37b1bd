"""Writes docs/accuracy.md from the figures of the benchmark.

python -m benchmarks.accuracy_page            # measures all anew (minutes), then writes
python -m benchmarks.accuracy_page --render   # writes from the figures of the last time
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from attune.catalog import Cluster
from attune.layout.table import Floats
from benchmarks.accuracy import Scored, as_data, score
from benchmarks.predict import of_seconds, predict
from benchmarks.probes import probed
from benchmarks.scatter import Point, scatter
from benchmarks.terms import fit, scaled

DOCS = Path(__file__).parent.parent / "docs"
PAGE, FIGURES = DOCS / "accuracy.md", DOCS / "accuracy.json"
RUNS: dict[str, dict[str, Any]] = {
    "memory": {"metric": "memory"},
    "reserved": {"metric": "memory", "calibrate": "terms", "files": ("simumax_b200",)},
    "outcome": {"metric": "outcome", "calibrate": "terms"},
    "time": {
        "metric": "time",
        "files": ("vtrain_single", "vtrain_multi", "simumax_b200", "selene", "bridge_perf"),
    },
    "time, terms": {
        "metric": "time",
        "calibrate": "terms",
        "files": ("vtrain_single", "vtrain_multi", "simumax_b200", "selene", "bridge_perf"),
    },
    "time, three probes": {
        "metric": "time",
        "probes": "3",
        "files": ("bridge_perf", "vtrain_multi", "simumax_b200"),
    },
    "time, B200 from other Blackwell": {},
    "time, terms and cells": {
        "metric": "time",
        "calibrate": "terms",
        "probes": "cell",
        "files": ("vtrain_single",),
    },
}
FITTED, CELLS = "time, terms", "time, terms and cells"
OTHERS = "time, B200 from other Blackwell"
QUICK = ("memory", "reserved", "outcome")
"""Runs of a few seconds, that a test does again."""
GOALS: tuple[tuple[str, str, str, str, str, str], ...] = (
    # words, run, file, metric, figure, at most (or at least, for a concordance)
    ("B200 allocated, mean", "memory", "simumax_b200", "peak_allocated_gib", "mean_abs_pct",
     "0.15"),
    ("B200 allocated, worst", "memory", "simumax_b200", "peak_allocated_gib", "max_abs_pct",
     "0.5"),
    ("B200 reserved, layout left out, mean", "reserved", "simumax_b200", "peak_reserved_gib",
     "mean_abs_pct", "1.3"),
    ("B200 reserved, layout left out, worst", "reserved", "simumax_b200", "peak_reserved_gib",
     "max_abs_pct", "4"),
    ("Megatron CI allocated, mean", "memory", "megatron_ci", "peak_allocated_gib", "mean_abs_pct",
     "1.2"),
    ("Megatron CI allocated, dense models, mean", "memory", "megatron_ci", "peak_allocated_gib",
     "dense_mean_abs_pct", "0.8"),
    ("Megatron CI allocated, 90th percentile", "memory", "megatron_ci", "peak_allocated_gib",
     "p90_abs_pct", "3"),
    ("fits or not, Brier", "outcome", "public_cases", "outcome", "brier", "0.08"),
    ("vTrain single node, mean", "time, terms", "vtrain_single", "step_time_s", "mean_abs_pct",
     "5.5"),
    ("vTrain single node, concordance", "time, terms", "vtrain_single", "", "concordance", "0.93"),
    ("vTrain single node, regret, %", "time, terms", "vtrain_single", "", "regret_pct", "3.5"),
    ("the same with a probe per cell, mean", "time, terms and cells", "vtrain_single",
     "step_time_s", "mean_abs_pct", "3"),
    ("the same, concordance", "time, terms and cells", "vtrain_single", "", "concordance", "0.975"),
    ("the same, regret, %", "time, terms and cells", "vtrain_single", "", "regret_pct", "0.4"),
    ("vTrain multi node, mean", "time, terms", "vtrain_multi", "step_time_s", "mean_abs_pct",
     "7.5"),
    ("vTrain multi node, concordance", "time, terms", "vtrain_multi", "", "concordance", "0.91"),
    ("B200 step time, family left out, mean", "time, terms", "simumax_b200", "step_time_s",
     "mean_abs_pct", "4"),
    ("B200 step time from other Blackwell sources, mean", "time, B200 from other Blackwell",
     "simumax_b200", "step_time_s", "mean_abs_pct", "6"),
    ("Selene, mean", "time, terms", "selene", "step_time_s", "mean_abs_pct", "2"),
    ("Megatron-Bridge tokens/s, model left out, mean", "time, terms", "bridge_perf",
     "tokens_per_s_per_gpu", "mean_abs_pct", "14"),
    ("Megatron-Bridge tokens/s after 3 probes, mean", "time, three probes", "bridge_perf",
     "tokens_per_s_per_gpu", "mean_abs_pct", "11"),
)  # fmt: skip


def measure(names: tuple[str, ...] = tuple(RUNS)) -> tuple[dict[str, Any], dict[str, Scored]]:
    """Figures of the runs, and the rows behind them."""
    runs = {name: score(**RUNS[name]) for name in names if name not in (CELLS, OTHERS)}
    if CELLS in names:
        runs[CELLS] = _with_cells(runs[FITTED])
    if OTHERS in names:
        runs[OTHERS] = _from_others(runs[FITTED])
    return {name: as_data(runs[name])["files"] for name in names}, runs


def _from_others(scored: Scored) -> Scored:
    """B200's rows of SimuMax after a fit, from the model's defaults, to Megatron-Bridge's rows of
    Blackwell alone."""
    plain = [replace(case, cluster=_unfitted(case.cluster)) for case in scored.cases]
    teachers = [
        c for c in plain if c.file == "bridge_perf" and c.cluster.gpu.architecture == "blackwell"
    ]
    factors = fit(teachers, ["all"] * len(teachers), leave_out=False)["all"]
    cases = [case for case in plain if case.file == "simumax_b200"]
    terms = [scaled(case.cluster.gpu, factors) for case in cases]
    predictions = predict(cases, terms)
    return Scored(cases=cases, predictions=predictions, terms=terms, skipped=[])


def _unfitted(cluster: Cluster) -> Cluster:
    return cluster.model_copy(update={"gpu": cluster.gpu.model_copy(update={"efficiency": {}})})


def _with_cells(scored: Scored) -> Scored:
    """The fitted rows of vTrain's single nodes after a probe of each cell."""
    mine = [i for i, case in enumerate(scored.cases) if case.file in RUNS[CELLS]["files"]]
    cases = [scored.cases[i] for i in mine]
    predictions = probed(cases, [scored.predictions[i] for i in mine], "cell")
    return replace(scored, cases=cases, predictions=predictions, skipped=[])


def render(figures: dict[str, Any]) -> str:
    """The page."""
    template = Path(__file__).with_name("accuracy_page.md").read_text(encoding="utf-8")
    tables = "\n\n".join(_table(name, figures[name]) for name in RUNS if name in figures)
    return template.replace("{{goals}}", _goals(figures)).replace("{{tables}}", tables)


def _goals(figures: dict[str, Any]) -> str:
    lines = ["| measure | goal | reached | |", "| --- | --: | --: | --- |"]
    for words, run, file, metric, figure, goal in GOALS:
        found = figures[run][file]
        value = (found[metric] if metric else found)[figure]
        met = value >= float(goal) if figure == "concordance" else value <= float(goal)
        lines.append(f"| {words} | {goal} | {value:.3g} | {'met' if met else 'missed'} |")
    return "\n".join(lines)


def _table(name: str, files: dict[str, Any]) -> str:
    head = "| file | metric | rows | left out | mean % | median % | 90th % | worst % | in 80 % |"
    lines = [f"### {name}", "", head, "| --- | --- |" + " --: |" * 7]
    notes = []
    for file, found in files.items():
        for metric, x in found.items():
            if isinstance(x, dict) and x.get("n") and "mean_abs_pct" in x:
                numbers = [x[k] for k in ("mean_abs_pct", "median_abs_pct", "p90_abs_pct")]
                numbers.append(x["max_abs_pct"])
                told = " | ".join(f"{value:.2f}" for value in numbers)
                lines.append(
                    f"| {file} | {metric} | {x['n']} | {x['skipped']} | {told} | "
                    f"{x['coverage_80']:.2f} |"
                )
            elif isinstance(x, dict) and "brier" in x:
                notes.append(
                    f"{file}: Brier {x['brier']:.3f} on {x['n']} outcomes, of which "
                    f"{x['out_of_memory']} ran out of memory "
                    f"({x['out_of_memory_above_95']} at P(fits) over 0.95)."
                )
        if "concordance" in found:
            regret = f", regret {found['regret_pct']:.2f} %" if "regret_pct" in found else ""
            notes.append(
                f"{file}: concordance {found['concordance']:.3f} of {found['pairs']} pairs{regret}."
            )
    body = lines if len(lines) > 4 else lines[:1]
    return "\n".join([*body, "", *notes]).rstrip()


def _pictures(runs: dict[str, Scored]) -> dict[str, str]:
    times: list[Point] = []
    for case, prediction in zip(runs["time, terms"].cases, runs["time, terms"].predictions):
        seconds: float | Floats = of_seconds(case, prediction.value)
        times.append((of_seconds(case, case.value), float(seconds), case.file))
    peaks = [
        (case.value, prediction.value, f"{case.file} {case.metric.split('_')[1]}")
        for case, prediction in zip(runs["memory"].cases, runs["memory"].predictions)
        if case.metric != "peak_device_gib"
    ]
    return {
        "accuracy_time.svg": scatter(times, "Step time, groups left out", "s"),
        "accuracy_memory.svg": scatter(peaks, "Peak memory", "GiB"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--render", action="store_true", help="from the figures of the last time")
    if not parser.parse_args().render:
        figures, runs = measure()
        DOCS.mkdir(exist_ok=True)
        FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        for name, picture in _pictures(runs).items():
            (DOCS / name).write_text(picture, encoding="utf-8")
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))
    PAGE.write_text(render(figures), encoding="utf-8")


if __name__ == "__main__":
    main()
