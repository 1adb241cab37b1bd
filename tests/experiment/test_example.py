"""The committed example: a real campaign of `tiny-moe` on two CPU processes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attune.experiment import Experiment
from attune.recipe import check_recipe, load_recipe
from attune.verbs.report import write_report

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTUNE_HOME", str(ROOT))


def test_the_example_opens_and_reports() -> None:
    history = write_report("example").history
    assert history.state == "done"
    assert {run.provenance for run in history.runs} == {"measured"}


def test_its_recipe_is_the_one_that_ships() -> None:
    recipe = load_recipe(Experiment.open("example").recipe_path)
    assert recipe.status == "verified" and check_recipe(recipe) == []
    assert recipe == load_recipe(ROOT / "recipes/tiny-moe/cpu/attune-tp1-pp1-rows2.yaml")


def test_it_holds_no_path_of_the_machine_that_made_it() -> None:
    absolute = re.compile(r"""(?:^|['"\s=])/\w+/\w""", re.MULTILINE)
    for path in Experiment.open("example").folder.rglob("*.[jy]*"):
        assert not absolute.search(path.read_text(encoding="utf-8")), path
