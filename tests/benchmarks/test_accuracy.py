from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.accuracy import as_data, report, score
from benchmarks.accuracy_page import FIGURES, PAGE, QUICK, measure, render
from benchmarks.cases import MEASUREMENTS, METRICS, read_cases
from benchmarks.scores import brier, ranking
from benchmarks.terms import calibrated

ROOT = Path(__file__).parent.parent.parent


def test_no_row_is_dropped() -> None:
    """Every row of every file is predicted, or named with a reason."""
    metrics = tuple(m for group in METRICS.values() for m in group)
    cases, skipped = read_cases(MEASUREMENTS, metrics)
    lines = sum(
        len(path.read_text(encoding="utf-8").splitlines()) - 1
        for path in MEASUREMENTS.glob("*.csv")
    )
    assert len(cases) + len(skipped) == lines
    assert all(row.reason for row in skipped)


def test_page_is_not_stale() -> None:
    """The page is what its figures give, and the quick figures are what the estimator gives."""
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))
    assert PAGE.read_text(encoding="utf-8") == render(figures)
    found, _ = measure(QUICK)
    again = json.loads(json.dumps(found))
    for name in QUICK:
        for file, metrics in again[name].items():
            for metric, values in metrics.items():
                if isinstance(values, dict):
                    for key in ("n", "skipped", "mean_abs_pct", "max_abs_pct", "brier"):
                        was = figures[name][file][metric].get(key)
                        assert values.get(key) == pytest.approx(was, abs=2e-3), (file, metric, key)


def test_goals_of_allocated_memory() -> None:
    figures = as_data(score(metric="memory"))["files"]
    b200 = figures["simumax_b200"]["peak_allocated_gib"]
    assert b200["n"] == 84
    assert b200["mean_abs_pct"] < 0.15
    assert b200["max_abs_pct"] < 0.5
    tests = figures["megatron_ci"]["peak_allocated_gib"]
    assert tests["median_abs_pct"] < 0.5
    assert tests["p90_abs_pct"] < 3


def test_a_left_out_group_does_not_see_itself() -> None:
    """Changed measurements of a group change no prediction of that group."""
    scored = score(metric="time", files=("selene",))
    cases = scored.cases
    before, _ = calibrated(cases, "terms", True)
    group = cases[0].family
    changed = [
        type(c)(**{**{f: getattr(c, f) for f in c.__dataclass_fields__}, "value": 1.2 * c.value})
        if c.family == group
        else c
        for c in cases
    ]
    after, _ = calibrated(changed, "terms", True)
    mine = [i for i, c in enumerate(cases) if c.family == group]
    for i in mine:
        assert after[i].value == pytest.approx(before[i].value, rel=0.01)
    others = [i for i, c in enumerate(cases) if c.family != group]
    assert any(abs(after[i].value / before[i].value - 1) > 0.02 for i in others)


def test_ranking_and_brier_of_known_predictions() -> None:
    scored = score(metric="time", files=("simumax_b200",))
    perfect = [
        type(p)(value=c.value, sigma=0.1, parts={})
        for c, p in zip(scored.cases, scored.predictions)
    ]
    right = ranking(scored.cases, perfect)
    assert right["concordance"] == 1
    assert right["regret_pct"] == 0
    turned = [type(p)(value=1 / p.value, sigma=0.1, parts={}) for p in perfect]
    assert ranking(scored.cases, turned)["concordance"] == 0
    outcomes = score(metric="outcome")
    sure = [type(p)(value=c.value, sigma=0.1, parts={}) for c, p in
            zip(outcomes.cases, outcomes.predictions)]  # fmt: skip
    assert brier(outcomes.cases, sure)["brier"] == 0


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with archs.yaml and one small CSV."""
    shutil.copy(MEASUREMENTS / "archs.yaml", tmp_path)
    lines = (MEASUREMENTS / "selene.csv").read_text(encoding="utf-8").splitlines()
    (tmp_path / "mine.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("tp", "0", "tp is 0"),
        ("tp", "-2", "tp is -2"),
        ("seq_len", "1e30", "seq_len is"),
        ("micro_batch", "many", "not a number"),
        ("arch_id", "nothing", "not in archs.yaml"),
        ("precision", "nvfp4", "FP4 weights"),
        ("gpu", "abacus", "no data of the GPU"),
        ("value", "nan", "value"),
        ("options", "use-megatron-fsdp=true", "FSDP"),
        ("recompute_granularity", "sometimes", "recompute_granularity is"),
        ("n_gpus", "3", "does not divide"),
    ],
)
def test_a_bad_row_is_named(data: Path, column: str, value: str, reason: str) -> None:
    path = data / "mine.csv"
    head, first, *rest = path.read_text(encoding="utf-8").splitlines()
    row = next(csv.DictReader(io.StringIO(f"{head}\n{first}")))
    row[column] = value
    out = io.StringIO()
    writer = csv.DictWriter(out, list(row), lineterminator="\n")
    writer.writeheader()
    writer.writerow(row)
    path.write_text(out.getvalue() + "\n".join(rest) + "\n", encoding="utf-8")
    scored = score(data, "time")
    assert len(scored.skipped) == 1
    assert reason in scored.skipped[0].reason
    assert f"unmodelled: {scored.skipped[0].reason}" in report(scored)
    assert np.isfinite([p.value for p in scored.predictions]).all()


def test_command_line_writes_the_shape_that_it_promises(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.accuracy", "--data", str(data), "--metric", "time",
         "--json", str(out)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    figures = json.loads(out.read_text(encoding="utf-8"))["files"]["mine"]
    assert {"n", "skipped", "mean_abs_pct", "median_abs_pct", "p90_abs_pct", "max_abs_pct"} <= set(
        figures["step_time_s"]
    )
    assert {"concordance", "coverage_80"} <= set(figures)
