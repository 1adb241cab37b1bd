"""A report as text for other programs: `report.md` and `trials.csv`."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable

from attune.report.arms import ExperimentReport
from attune.report.charts import charts
from attune.report.verdict import facts, headline, notice, run_rows

_HEAD = (
    "run",
    "purpose",
    "outcome",
    "layout",
    "tokens/s/GPU",
    "step time s",
    "CV %",
    "peak GiB",
    "predicted s",
    "predicted low s",
    "predicted high s",
    "predicted GiB",
    "P(fits)",
    "GPU-hours",
    "provenance",
    "evidence",
)


def trials_csv(report: ExperimentReport) -> str:
    """Every run, one line each; a cell that a spreadsheet would take for a formula is quoted."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_HEAD)
    for run in report.history.runs:
        told = run.predicted
        writer.writerow(
            _inert(
                (
                    run.run,
                    run.purpose,
                    run.outcome,
                    run.layout,
                    run.tokens_per_s_per_gpu,
                    run.step_time_s,
                    run.step_time_cv_percent,
                    run.peak_gib,
                    told.step_s,
                    told.low_s,
                    told.high_s,
                    told.peak_gib,
                    told.p_fits,
                    run.gpu_hours,
                    run.provenance,
                    run.evidence,
                )
            )
        )
    return text.getvalue()


def _inert(cells: Iterable[object]) -> list[object]:
    """Text that starts like a formula gets a leading quote, as OWASP advises for CSV."""
    return [
        f"'{cell}"
        if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r")
        else cell
        for cell in cells
    ]


def report_markdown(report: ExperimentReport) -> str:
    """The report as Markdown: verdict, facts, runs, and the table of every chart."""
    said = [*report.remarks, *([notice(report)] if notice(report) else [])]
    parts = [f"# {markdown(headline(report))}", *map(markdown, said)]
    parts.append(_table(("fact", "value"), facts(report)))
    head, rows = run_rows(report)
    parts += ["## Runs", _table(head, rows)]
    for chart in charts(report):
        parts += [f"## {chart.title}", f"{chart.says} Origin: {chart.origin}."]
        parts.append(_table(chart.head, chart.rows))
    if report.notes.strip():
        parts += ["## Notes", "\n".join(f"    {line}" for line in report.notes.splitlines())]
    return "\n\n".join(parts) + "\n"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [_row(head), _row("---" for _ in head)]
    return "\n".join([*lines, *map(_row, rows)])


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(markdown, cells)) + " |"


def markdown(text: str) -> str:
    """Data as Markdown words: nothing in it is a link, a tag, or the end of a cell."""
    flat = " ".join(str(text).split())
    if set(flat) <= {"-"}:
        return flat
    return re.sub(r"([\\`*_{}\[\]<>|#!~&])", r"\\\1", flat)
