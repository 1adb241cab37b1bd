"""Whatever a file says, a terminal finds nothing in it to obey."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import pytest
from campaign_events import campaign, finished, started
from hostile import CONTROLS

from attune.cli.output import json_text
from attune.experiment.events import Interrupted
from attune.recipe import Recipe, dump_recipe, load_recipe
from attune.recipe.library import recipe_files
from attune.report.campaign import ListedExperiment, Report, draw_experiments, draw_report
from attune.report.history import history_of
from attune.report.live import draw_events
from attune.report.recipe import CheckedRecipe, RecipeProblem, draw_checked_recipe, draw_recipe
from attune.report.words import grid, say, say_marked, say_whole, visible

OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def _recipe(text: str) -> Recipe:
    recipe = load_recipe(next(p for p in recipe_files() if p.stem.startswith("published-tp4-pp16")))
    return recipe.model_copy(
        update={
            "model": text,
            "run": text,
            "notes": text,
            "env": {text: text},
            "author": recipe.author.model_copy(update={"name": text, "url": text}),
            "stack": recipe.stack.model_copy(update={"framework": text, "cuda": text}),
        }
    )


@pytest.mark.parametrize("text", CONTROLS, ids=ascii)
def test_drawings_hold_no_control_character(text: str, drawn) -> None:
    assert OBEYED.search(text), "the case itself"
    events = [
        started(model=text, gpu=text, workload=text, launcher_reason=text, experiment=text),
        finished(0, text, purpose="reference"),
        finished(1, text, outcome="diverged", evidence=text, advice=text),
        finished(2, text, best=True),
        Interrupted(run=3, layout=text, gpu_hours=1.0),
        campaign()[-1].model_copy(update={"winner": text, "problem": text}),
    ]
    fields = dict.fromkeys(("id", "model", "gpu", "state", "provenance", "problem"), text)
    listed = ListedExperiment(count=1, runs=1, tokens_per_s_per_gpu=1.0, **fields)
    report = Report(experiment=text, history=history_of(events), remarks=(text,))
    checked = CheckedRecipe(path=Path(text), problems=(RecipeProblem(field=text, reason=text),))
    for draw, result in (
        (draw_report, report),
        (draw_events, events),
        (draw_experiments, (listed,)),
        (draw_recipe, _recipe(text)),
        (draw_checked_recipe, checked),
    ):
        shown = drawn(draw, result)
        assert shown and not OBEYED.search(shown), (draw, shown)


@pytest.mark.parametrize("text", CONTROLS, ids=ascii)
def test_words_and_cells(text: str, drawn) -> None:
    def draw(words: str, console) -> None:
        say(console, words)
        say_whole(console, words)
        say_marked(console, words.replace("[", r"\["))
        table = grid(["x"])
        table.add_row(words.replace("[", r"\["))
        console.print(table)

    assert not OBEYED.search(drawn(draw, text))


def test_controls_are_shown_and_all_else_stays() -> None:
    assert visible("\x1b[2J\r\x9b") == r"\x1b[2J\r\x9b"
    plain = "naïve 模型 \t tab\nline — 🙂 [bold]"
    assert visible(plain) == plain


@pytest.mark.parametrize("text", CONTROLS, ids=ascii)
def test_json_says_the_same_without_them(text: str) -> None:
    written = json_text({"name": text})
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", written)
    assert json.loads(written) == {"name": text}


def test_names_of_unknown_fields_are_shown_too(tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    text = dump_recipe(load_recipe(recipe_files()[0]))
    file.write_text(text + '"\\e[2Jfield": 1\n')
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        load_recipe(file)
    assert r"\x1b[2Jfield" in str(told[0].message) and not OBEYED.search(str(told[0].message))
