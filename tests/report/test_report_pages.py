from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from campaign_events import REFERENCE, WINNER, campaign, finished, started
from hostile import HOSTILE
from pages import Page

from attune.errors import AttuneError
from attune.experiment.events import Attributed, Contribution, Interrupted
from attune.report.arms import Arm, ExperimentReport, Neighbour, Schedule, SchedulePass
from attune.report.charts import charts
from attune.report.explanation import Explanation, StageMemory
from attune.report.history import history_of
from attune.report.report_pages import report_html, write_pages
from attune.report.tables import report_markdown, trials_csv
from attune.report.verdict import headline
from attune.trial.result import Step
from attune.workload import Workload


def _arm(name: str, run: int, losses: tuple[float | None, ...]) -> Arm:
    stages = tuple(
        StageMemory(
            stage=stage,
            parts={"weights": 20.0, "activations": 30.0 - stage},
            allocated_gib=50.0 - stage,
            reserved_gib=55.0 - stage,
            device_gib=57.0 - stage,
        )
        for stage in range(2)
    )
    return Arm(
        name=name,
        run=run,
        provenance="predicted",
        steps=tuple(Step(step=i, seconds=1.0, loss=loss) for i, loss in enumerate(losses)),
        explanation=Explanation(
            model="GLM-4.5",
            gpu="H200",
            count=128,
            workload=Workload(),
            layout="tp=1 pp=2",
            label="TP1 PP2",
            broken=(),
            sizes=None,
            memory=stages,
            step_parts={"compute": 30.0, "expert": 8.0},
        ),
    )


def _report(events: list[Any] | None = None, **changes: Any) -> ExperimentReport:
    fields: dict[str, Any] = {
        "experiment": "exp-1",
        "history": history_of(campaign() if events is None else events),
        "arms": (_arm("winner", 2, (5.0, 4.0, None)), _arm("reference", 0, (5.0, 4.1, 3.5))),
        "neighbours": (
            Neighbour(change="tp=8", layout="tp=8", step_s=44.0, p_fits=0.99, percent=15.8),
        ),
        "limit_gib": 139.8,
        "float32": True,
        "notes": "- a note",
        "command": "attune trial",
        "environment": "A=b",
        "versions": (("attune", "0.1.0"),),
    }
    return ExperimentReport(**fields | changes)


def _schedule(stages: int, passes: int) -> Schedule:
    drawn = tuple(
        SchedulePass(stage=i % stages, backward=i % 2 == 1, start_s=i * 0.1, end_s=i * 0.1 + 0.1)
        for i in range(passes)
    )
    return Schedule(
        drawn=drawn,
        drawn_microbatches=4,
        drawn_of=passes,
        microbatches=8,
        busy_s=tuple(3.0 + stage for stage in range(stages)),
        total_s=8.0,
    )


def test_the_schedule_shows_what_waits() -> None:
    arm = replace(_arm("winner", 2, (5.0,)), schedule=_schedule(2, 6))
    (chart,) = (c for c in charts(_report(arms=(arm,))) if c.id == "schedule")
    assert chart.rows == (
        ("winner 0", "3.00", "5.00", "62.5 %"),
        ("winner 1", "4.00", "4.00", "50.0 %"),
    )
    assert "winner: 4 of 8 microbatches" in chart.says and chart.origin == "predicted"
    forward, backward = chart.figure["data"]
    assert forward["base"] == [0.0, 0.2, 0.4] and backward["y"] == ["winner 1"] * 3


def test_the_verdict_comes_first_with_its_origin() -> None:
    report = _report()
    assert headline(report) == (
        "GLM-4.5 on 128 H200: 215.6 tokens/s/GPU, +31.6 % against the reference (predicted)"
    )
    text = report_html(report)
    assert text.index("SIMULATED") < text.index("Search history")
    assert "layout_bound failed" in text and "4 % off at step 20" in text


def test_every_chart_has_its_numbers_in_a_table() -> None:
    drawn = {chart.id: chart for chart in charts(_report())}
    assert list(drawn) == [
        *("search", "time", "memory", "step", "stages", "losses", "difference", "knobs"),
    ]
    assert drawn["step"].rows == (("compute", "30.0", "30.0"), ("expert", "8.00", "8.00"))
    assert drawn["time"].rows[0][1:] == ("50.0", "40.0", "34.0 to 46.0", "+25.0 %")
    assert drawn["difference"].rows[1][1] == "2.44e-02"
    assert len(drawn["difference"].rows) == 2, "a step without a loss has no difference"
    assert [len(row) for row in drawn["stages"].rows] == [6] * 4
    figures = json.loads(_figures(report_html(_report())))
    assert figures["losses"]["data"][0]["y"] == [5.0, 4.0, None]


def test_the_waterfall_shows_parts_that_add_up() -> None:
    parts = (
        contribution("PP", 40.0, provenance="measured", runs=(0, 2)),
        contribution("TP", -8.4, provenance="predicted"),
    )
    told = Attributed(
        reference=REFERENCE, winner=WINNER, total_percent=31.6, orders=2, contributions=parts
    )
    events = campaign()
    report = _report([*events[:-1], told, events[-1]])
    (chart,) = [chart for chart in charts(report) if chart.id == "waterfall"]
    (bars,) = chart.figure["data"]
    assert bars["type"] == "waterfall" and bars["measure"] == ["relative", "relative", "total"]
    assert sum(bars["y"][:-1]) == pytest.approx(bars["y"][-1])
    assert [row[-1] for row in chart.rows[:-1]] == ["measured", "predicted"]
    assert chart.origin == "measured and predicted" and chart.rows[0][4] == "0, 2"
    assert "Where the gain comes from" in report_html(report)


def contribution(knob: str, percent: float, **changes: Any) -> Contribution:
    fields = {"deviation_percent": 1.0, "before": "pp=8", "after": "pp=16"}
    return Contribution(knob=knob, percent=percent, **fields | changes)


def _figures(text: str) -> str:
    return text.split('id="figures">')[1].split("</script>")[0]


def test_an_unfinished_campaign_is_reported() -> None:
    cut = Interrupted(run=2, layout="tp=4", gpu_hours=1.0)
    for events in ([started()], [*campaign()[:7], cut], campaign()[:12]):
        report = _report(events, arms=(), neighbours=())
        text = report_html(report)
        assert "no verdict yet" in text and Page(text).harm == []
        assert report_markdown(report) and trials_csv(report)
    assert "interrupted" in report_html(_report([*campaign()[:7], cut], arms=(), neighbours=()))


def test_files_of_a_report_and_what_reports_share(tmp_path: Path) -> None:
    page = write_pages(_report(), tmp_path / "reports" / "exp-1")
    for link in Page(page.read_text(encoding="utf-8")).links:
        if not link.startswith(("#", "data:,")):
            assert (page.parent / link).is_file(), link
    assert {f.name for f in page.parent.iterdir()} == {"index.html", "report.md", "trials.csv"}
    shared = tmp_path / "reports" / "plotly.min.js"
    before = shared.stat().st_mtime_ns
    write_pages(_report(), tmp_path / "reports" / "exp-2")
    assert shared.stat().st_mtime_ns == before


def test_a_single_file_needs_nothing_beside_it(tmp_path: Path) -> None:
    page = write_pages(_report(), tmp_path / "one", single_file=True)
    text = page.read_text(encoding="utf-8")
    beside = {"report.md", "trials.csv"}
    assert {x for x in Page(text).links if not x.startswith(("#", "data:,"))} <= beside
    assert "Plotly.newPlot" in text and "--paper" in text
    assert not (tmp_path / "plotly.min.js").exists()


def test_two_hundred_trials_stay_small() -> None:
    more = [finished(run, f"tp=4 pp=16 rows={run}") for run in range(3, 203)]
    names = ("winner", "reference")
    arms = [replace(_arm(n, 0, (5.0,)), schedule=_schedule(64, 1500)) for n in names]
    text = report_html(_report([*campaign()[:12], *more], arms=tuple(arms)))
    assert len(text.encode()) < 1_000_000
    assert text.count("tp=4 pp=16 rows=202") >= 1


def test_hostile_words_come_out_inert() -> None:
    for text in HOSTILE:
        events = [
            started(model=text, gpu=text, workload=text, launcher_reason=text),
            finished(0, text, purpose="reference"),
            finished(1, text, outcome="diverged", evidence=text, advice=text),
            finished(2, text, best=True),
        ]
        report = _report(
            events, experiment=text, notes=text, command=text, environment=text, arms=()
        )
        page = report_html(report)
        assert Page(page).harm == [], text
        json.loads(_figures(page))
        _check_csv(trials_csv(report), text)
        _check_markdown(report_markdown(report))


def _check_csv(text: str, word: str) -> None:
    rows = list(csv.reader(io.StringIO(text)))
    assert {len(row) for row in rows} == {len(rows[0])}
    assert not [cell for row in rows for cell in row if re.match(r"[=@\t\r]|[-+](?![\d.])", cell)]
    assert rows[1][3].lstrip("'") == word.lstrip("'")


def _check_markdown(text: str) -> None:
    """No tag, link or image; and no cell that ends before its row does."""
    plain = re.sub(r"\\.", "", "\n".join(x for x in text.split("\n") if not x.startswith("    ")))
    assert not re.search(r"[<>\[\]`]", plain)
    tables = re.findall(r"(?:^\|.*\|$\n)+", plain, re.MULTILINE)
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1


def test_a_read_only_folder_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "reports").write_text("in the way")
    with pytest.raises(AttuneError, match="cannot write"):
        write_pages(_report(), tmp_path / "reports" / "exp-1")
