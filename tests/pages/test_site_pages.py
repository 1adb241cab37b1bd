"""The leaderboard in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from attune.recipe import load_recipe
from attune.recipe.library import recipe_files
from attune.report.site import RecipeFile, build_site

pytestmark = pytest.mark.pages

BOARD = "glm-5.2/b200/index.html"
RECIPE = "glm-4.5/h200/published-tp4-pp16-ep8.html"
QUERY = "?a=glm-4.5/h200/published-tp4-pp16-ep8&b=glm-4.5/h200/megatron-bridge-tp2-pp8-ep16"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    files = [
        RecipeFile(path=path, recipe=load_recipe(path), text=path.read_text(encoding="utf-8"))
        for path in recipe_files()
    ]
    build_site(files, folder)
    return folder


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280, 3840])
@pytest.mark.parametrize("name", ["index.html", BOARD, RECIPE, "compare.html"])
def test_a_page_is_quiet_narrow_enough_and_accessible(site, watched, name, width, scheme):
    seen = watched(width=width, scheme=scheme)
    seen.open(site / name)
    assert seen.too_wide <= 0
    assert seen.serious_findings() == []
    assert (seen.complaints, seen.strangers) == ([], [])


def test_sorting_and_filtering(site, watched):
    seen = watched()
    seen.open(site / BOARD)
    shown = "[...document.querySelectorAll('#board tbody tr')].filter(row => !row.hidden)"
    rates = f"{shown}.map(row => row.cells[1].textContent)"
    assert seen.page.evaluate(rates) == ["146.8", "146.7", "136.5"]
    header = seen.page.get_by_role("button", name="Tokens/s/GPU")
    header.click()
    assert seen.page.evaluate(rates) == ["136.5", "146.7", "146.8"]
    header.click()
    assert seen.page.evaluate(rates) == ["146.8", "146.7", "136.5"]
    seen.page.get_by_label("Filter").fill("cp8 dp1")
    assert seen.page.evaluate(rates) == ["136.5"]


def test_copying_the_command(site, watched):
    seen = watched()
    seen.open(site / RECIPE)
    seen.page.get_by_role("button", name="Copy the command").click()
    text = load_recipe(next(p for p in recipe_files() if p.stem == Path(RECIPE).stem)).run
    assert seen.page.evaluate("navigator.clipboard.readText()") == text


def test_the_theme_is_switched_and_kept(site, watched):
    seen = watched(scheme="light")
    seen.open(site / "index.html")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert seen.page.evaluate(ground) == "rgb(255, 255, 255)"
    seen.page.get_by_role("button", name="Switch between light and dark").click()
    assert seen.page.evaluate(ground) == "rgb(16, 22, 29)"
    seen.page.reload()
    assert seen.page.evaluate(ground) == "rgb(16, 22, 29)"


def test_two_ticked_recipes_are_compared(site, watched):
    seen = watched()
    seen.open(site / BOARD)
    boxes = seen.page.get_by_role("checkbox")
    boxes.nth(0).check()
    boxes.nth(2).check()
    seen.page.get_by_role("link", name="Compare the two ticked").click()
    seen.page.get_by_text("fields differ").wait_for()
    row = seen.page.get_by_role("row", name="layout: cp")
    assert row.locator("td").all_text_contents() == ["4", "8"]
    assert (seen.complaints, seen.strangers) == ([], [])


def test_print_shows_everything(site, watched):
    seen = watched()
    seen.open(site / RECIPE)
    assert seen.page.pdf()[:5] == b"%PDF-"
    seen.page.emulate_media(media="print")
    assert not seen.page.get_by_role("button", name="Copy the command").is_visible()
    heights = "[...document.querySelectorAll('pre')].map(p => p.scrollHeight - p.clientHeight)"
    assert max(seen.page.evaluate(heights)) <= 0


def test_with_scripts_off_the_page_says_the_same(site, watched):
    seen = watched(scripts=False)
    seen.open(site / BOARD)
    assert seen.page.get_by_role("link", name="published-tp4-pp2-cp8").is_visible()
    assert not seen.page.get_by_label("Filter").is_visible()
    seen.open(site / "compare.html")
    assert seen.page.get_by_text("attune recipe diff A B").is_visible()


def test_comparing_from_a_link(site, watched):
    seen = watched()
    seen.open(site / "compare.html", QUERY)
    seen.page.get_by_text("fields differ").wait_for()
    row = seen.page.get_by_role("row", name="layout: pp")
    assert row.first.locator("td").all_text_contents() == ["16", "8"]
