"""Writes the pages of an experiment's report."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from attune.errors import AttuneError
from attune.report.arms import ExperimentReport
from attune.report.charts import charts
from attune.report.html import asset, copy_assets, templates, write_page
from attune.report.tables import report_markdown, trials_csv
from attune.report.verdict import facts, headline, notice, run_rows

_PLOTLY = "plotly.min.js"


def write_pages(report: ExperimentReport, folder: Path, *, single_file: bool = False) -> Path:
    """Writes `index.html`, `report.md` and `trials.csv` into `folder`; gives the page.

    Style, scripts and Plotly lie in the folder above, shared by all reports, or inside the page
    with `single_file`, which then needs nothing beside it.

    Raises:
        AttuneError: the folder cannot be written.
    """
    page = folder / "index.html"
    write_page(page, report_html(report, single_file=single_file))
    write_page(folder / "report.md", report_markdown(report))
    write_page(folder / "trials.csv", trials_csv(report))
    if not single_file:
        copy_assets(folder.parent / "assets")
        _copy_plotly(folder.parent / _PLOTLY)
    return page


def report_html(report: ExperimentReport, *, single_file: bool = False) -> str:
    """The page of a report."""
    drawn, (head, rows) = charts(report), run_rows(report)
    history = report.history
    words: dict[str, Any] = {
        "title": headline(report),
        "notice": notice(report),
        "remarks": report.remarks,
        "state": history.state,
        "done": history.completed if history.completed and history.completed.winner else None,
        "facts": facts(report),
        "charts": drawn,
        "figures": {chart.id: chart.figure for chart in drawn},
        "head": head,
        "rows": rows,
        "checks": [(v.run, check) for v in history.verified for check in v.checks],
        "notes": report.notes,
        "command": report.command,
        "environment": report.environment,
        "versions": report.versions,
        "assets": "" if single_file else "../assets",
        "style": asset("style.css") if single_file else "",
        "scripts": [asset("page.js"), _plotly().read_text("utf-8"), asset("charts.js")]
        if single_file
        else [],
    }
    return templates().get_template("report.html").render(words)


def _plotly() -> Path:
    """Plotly's script, as its Python package carries it."""
    import plotly

    return Path(plotly.__file__).parent / "package_data" / _PLOTLY


def _copy_plotly(file: Path) -> None:
    source = _plotly()
    try:
        if not file.is_file() or file.stat().st_size != source.stat().st_size:
            shutil.copyfile(source, file)
    except OSError as error:
        raise AttuneError(f"cannot write {file}: {error.strerror}; give another -o") from error
