"""The report of the committed example in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from attune.verbs.report_pages import write_report_pages

pytestmark = pytest.mark.pages

EXAMPLE = Path(__file__).resolve().parents[2] / "experiments" / "example"


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    return write_report_pages(str(EXAMPLE), tmp_path_factory.mktemp("reports") / "example")


def drawn(seen) -> None:
    """Wait until every chart is drawn."""
    seen.page.wait_for_function(
        "[...document.querySelectorAll('[data-chart]')].every(c => c.querySelector('.main-svg'))"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280, 3840])
def test_a_report_is_quiet_narrow_enough_and_accessible(report, watched, width, scheme):
    seen = watched(width=width, scheme=scheme)
    seen.open(report)
    drawn(seen)
    assert seen.page.locator("[data-chart]").count() >= 7
    assert seen.too_wide <= 0
    assert seen.serious_findings() == []
    assert (seen.complaints, seen.strangers) == ([], [])


def test_charts_follow_the_theme(report, watched):
    seen = watched(scheme="light")
    seen.open(report)
    drawn(seen)
    ink = "document.querySelector('[data-chart] .xtick text').style.fill"
    before = seen.page.evaluate(ink)
    seen.page.get_by_role("button", name="Switch between light and dark").click()
    seen.page.wait_for_function(f"{ink} !== {before!r}")


def test_one_file_draws_by_itself(report, watched, tmp_path):
    page = write_report_pages(str(EXAMPLE), tmp_path / "alone", single_file=True)
    moved = page.rename(tmp_path / "elsewhere.html")
    seen = watched()
    seen.open(moved)
    drawn(seen)
    assert (seen.complaints, seen.strangers) == ([], [])


def test_with_scripts_off_the_tables_stay(report, watched):
    seen = watched(scripts=False)
    seen.open(report)
    assert not seen.page.locator("[data-chart]").first.is_visible()
    seen.page.locator("details summary").first.click()
    assert seen.page.locator("details table").first.is_visible()
    assert seen.page.locator("#all-runs tbody tr").count() == 6


def test_print_opens_the_tables(report, watched):
    seen = watched()
    seen.open(report)
    drawn(seen)
    assert seen.page.pdf()[:5] == b"%PDF-"
    assert seen.page.evaluate("document.querySelectorAll('details:not([open])').length") == 0


def test_runs_are_filtered_and_sorted_by_keyboard(report, watched):
    seen = watched()
    seen.open(report)
    shown = "[...document.querySelectorAll('#all-runs tbody tr')].filter(row => !row.hidden)"
    names = f"{shown}.map(row => row.cells[0].textContent)"
    seen.page.locator("input.filter").focus()
    seen.page.keyboard.type("out of memory")
    assert seen.page.evaluate(names) == ["3", "4"]
    header = seen.page.locator("#all-runs thead button").first
    header.focus()
    seen.page.keyboard.press("Enter")
    seen.page.keyboard.press("Enter")
    assert seen.page.evaluate(names) == ["4", "3"]
