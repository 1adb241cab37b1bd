from __future__ import annotations

from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "experiments" / "example"


def test_pages_of_an_experiment(attune, tmp_path):
    answer = attune("report", EXAMPLE, "--html", "-o", tmp_path / "r" / "example")
    assert answer.code == 0, answer.err
    page = Path("".join(answer.out.split("\n")))
    assert page == tmp_path / "r" / "example" / "index.html" and page.is_file()
    text = page.read_text(encoding="utf-8")
    assert "tiny-moe on 2 CPU" in text and "(verified)" in text
    assert (tmp_path / "r" / "plotly.min.js").stat().st_size > 1_000_000


def test_the_usual_place_is_beside_the_experiments(attune, tmp_path):
    assert attune("report", EXAMPLE, "--html").code == 0
    assert (tmp_path / "home" / "reports" / "example" / "report.md").is_file()


def test_no_experiment(attune):
    answer = attune("report", "nowhere", "--html")
    assert answer.code == 2 and "no experiment `nowhere`" in answer.err
