"""Predicted against measured, row by row: how accurate the estimator is.

python -m benchmarks.accuracy --metric time --calibrate terms --leave-out group

Reads every CSV file of the directory (and archs.yaml beside them), predicts each row that it can,
and names the others with the reason.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import scores
from benchmarks.cases import MEASUREMENTS, METRICS, TIME, Case, Skipped, read_cases
from benchmarks.predict import EIGHTY_PERCENT, Prediction, log_errors
from benchmarks.probes import probed
from benchmarks.residuals import left_out
from benchmarks.terms import Terms, calibrated, groups_of

_WORST = 10


@dataclass(frozen=True, kw_only=True)
class Scored:
    """All rows of one run of the benchmark with what was predicted for them."""

    cases: list[Case]
    predictions: list[Prediction]
    terms: list[Terms]
    skipped: list[Skipped]


def score(
    directory: Path = MEASUREMENTS,
    metric: str = "all",
    calibrate: str = "none",
    leave_out: bool = True,
    probes: str = "none",
    files: Sequence[str] = (),
) -> Scored:
    """Predictions for every row of `metric` (memory, time, outcome or all)."""
    wanted = METRICS[metric] if metric in METRICS else tuple(m for x in METRICS.values() for m in x)
    cases, skipped = read_cases(directory, wanted)
    if files:
        cases = [case for case in cases if case.file in files]
        skipped = [row for row in skipped if row.file in files]
    predictions, terms = calibrated(cases, calibrate, leave_out)
    if calibrate != "none" and leave_out:
        predictions = left_out(directory, cases, predictions)
    predictions = probed(cases, predictions, probes)
    return Scored(cases=cases, predictions=predictions, terms=terms, skipped=skipped)


def as_data(scored: Scored) -> dict[str, Any]:
    """Figures by file and metric."""
    names = sorted({c.file for c in scored.cases} | {s.file for s in scored.skipped})
    return {"files": {name: _file(scored, name) for name in names}}


def _file(scored: Scored, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    mine = [(c, p) for c, p in zip(scored.cases, scored.predictions) if c.file == name]
    skipped = [s for s in scored.skipped if s.file == name]
    metrics = sorted({c.metric for c, _ in mine} | {s.metric for s in skipped})
    for metric in metrics:
        some = [(c, p) for c, p in mine if c.metric == metric]
        cases, predictions = [c for c, _ in some], [p for _, p in some]
        figures = (scores.brier if metric == "outcome" else scores.errors)(cases, predictions)
        left = [s for s in skipped if s.metric == metric]
        figures["skipped"] = len(left)
        figures["reasons"] = dict(Counter(s.reason for s in left).most_common())
        if metric != "outcome" and some:
            figures["coverage_80"] = coverage(cases, predictions)
            figures["families"] = _families(cases, predictions)
            dense = [(c, p) for c, p in some if not c.model.experts]
            if dense and len(dense) < len(some):
                own = scores.errors([c for c, _ in dense], [p for _, p in dense])
                figures["dense_mean_abs_pct"] = own["mean_abs_pct"]
        found[metric] = figures
    sizes = [(c, p) for c, p in mine if c.metric != "outcome"]
    if sizes:
        cases, predictions = [c for c, _ in sizes], [p for _, p in sizes]
        found.update(scores.ranking(cases, predictions))
        found["coverage_80"] = coverage(cases, predictions)
    return found


def _families(cases: Sequence[Case], predictions: Sequence[Prediction]) -> dict[str, Any]:
    names = sorted({case.family for case in cases})
    families = {}
    for name in names:
        some = [(c, p) for c, p in zip(cases, predictions) if c.family == name]
        families[name] = scores.errors([c for c, _ in some], [p for _, p in some])
    return families


def coverage(cases: Sequence[Case], predictions: Sequence[Prediction]) -> float:
    """Share of the rows within their 80 % interval.

    The interval of a row is learnt from rows of the same file and metric outside its group (split
    conformal: the 80 % quantile of their absolute log errors); where there is no other group it is
    the estimator's own.
    """
    errors = np.abs(log_errors(cases, predictions))
    groups = groups_of(cases)
    within = []
    for i, case in enumerate(cases):
        others = [
            errors[j]
            for j in range(len(cases))
            if groups[j] != groups[i] and _kind(cases[j]) == _kind(case)
        ]
        own = EIGHTY_PERCENT * predictions[i].sigma
        width = float(np.quantile(others, 0.8, method="higher")) if others else own
        within.append(errors[i] <= width)
    return round(float(np.mean(within)), 3)


def _kind(case: Case) -> tuple[str, str]:
    return case.file, "time" if case.metric in TIME else case.metric


def report(scored: Scored) -> str:
    """The figures in words, with the worst rows and every row that is not predicted."""
    lines = []
    for name, found in as_data(scored)["files"].items():
        for metric, figures in found.items():
            if isinstance(figures, dict):
                lines += _metric_lines(name, metric, figures)
        told = [f"{k} {v}" for k, v in found.items() if not isinstance(v, dict)]
        lines.append(f"{name}: " + ", ".join(told) if told else "")
        lines += _worst(scored, name)
    lines.append(f"not predicted: {len(scored.skipped)} rows")
    lines += [f"  {s.row.get('id', '?')}: unmodelled: {s.reason}" for s in scored.skipped]
    return "\n".join(lines)


def _metric_lines(name: str, metric: str, figures: dict[str, Any]) -> list[str]:
    def told(values: dict[str, Any]) -> str:
        return ", ".join(f"{k} {v}" for k, v in values.items() if not isinstance(v, dict))

    lines = [f"{name} {metric}: {told(figures)}"]
    lines += [f"    {family}: {told(x)}" for family, x in figures.get("families", {}).items()]
    lines += [f"    not predicted, {n} rows: {r}" for r, n in figures.get("reasons", {}).items()]
    return lines


def _worst(scored: Scored, name: str) -> list[str]:
    mine = [
        (c, p)
        for c, p in zip(scored.cases, scored.predictions)
        if c.file == name and c.metric != "outcome"
    ]
    mine.sort(key=lambda pair: -abs(pair[1].value / pair[0].value - 1))
    lines = []
    for case, prediction in mine[:_WORST]:
        parts = ", ".join(f"{k} {v:.3g}" for k, v in prediction.parts.items() if v)
        error = 100 * (prediction.value / case.value - 1)
        lines.append(
            f"    {error:+.1f} % {case.row['id']}: predicted {prediction.value:.4g}, measured "
            f"{case.value:.4g} ({parts})"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=MEASUREMENTS)
    parser.add_argument("--metric", choices=[*METRICS, "all"], default="all")
    parser.add_argument("--calibrate", choices=["none", "scalar", "terms"], default="none")
    parser.add_argument("--leave-out", choices=["group", "none"], default="group")
    parser.add_argument("--probes", choices=["none", "3", "cell"], default="none")
    parser.add_argument("--file", action="append", default=[], help="only this CSV file (by name)")
    parser.add_argument("--json", type=Path, help="write the figures there; - prints them")
    arguments = parser.parse_args()
    if not (arguments.data / "archs.yaml").is_file():
        parser.error(f"--data {arguments.data} must be a directory that holds archs.yaml and CSVs")
    scored = score(
        arguments.data,
        arguments.metric,
        arguments.calibrate,
        arguments.leave_out == "group",
        arguments.probes,
        arguments.file,
    )
    if str(arguments.json) != "-":
        print(report(scored))
    if arguments.json:
        text = json.dumps(as_data(scored), indent=1)
        if str(arguments.json) == "-":
            print(text)
        else:
            arguments.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
