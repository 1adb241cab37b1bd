from __future__ import annotations

from pathlib import Path

from attune.recipe import load_recipe
from attune.recipe.difference import compare

FOLDER = Path(__file__).resolve().parents[1] / "cases" / "recipes"
FIRST = FOLDER / "glm-5.2-744b-a40b_b200_attune-tp4-pp2-cp4-mt16k.yaml"
THIRD = FOLDER / "glm-5.2-744b-a40b_b200_attune-tp4-pp2-cp8.yaml"


def test_two_published_recipes_differ_in_one_knob_and_their_figures() -> None:
    found = compare(load_recipe(FIRST), load_recipe(THIRD))
    assert [(d.part, d.name) for d in found if d.part != "result"] == [("layout", "cp")]
    rate = next(d for d in found if d.name == "tokens_per_s_per_gpu")
    assert (rate.before, rate.after) == (146.8, 136.48)
    assert rate.change_percent is not None and round(rate.change_percent, 2) == -7.03


def test_words_are_no_difference() -> None:
    recipe = load_recipe(FIRST)
    words = recipe.layout.model_copy(update={"summary": "other words", "highlights": "more"})
    assert compare(recipe, recipe.model_copy(update={"layout": words, "notes": "mine"})) == []


def test_flags_beside_the_layout_and_variables_are_differences() -> None:
    recipe = load_recipe(FIRST)
    other = recipe.model_copy(
        update={
            "run": recipe.run.replace("--lr 1e-5", "--lr 2e-5"),
            "env": recipe.env | {"NCCL_DEBUG": "INFO"},
        }
    )
    assert [(d.part, d.name, d.before, d.after) for d in compare(recipe, other)] == [
        ("command", "--lr", "1e-5", "2e-5"),
        ("environment", "NCCL_DEBUG", None, "INFO"),
    ]


def test_a_missing_result_is_a_difference_without_percent() -> None:
    recipe = load_recipe(FIRST)
    found = compare(recipe, recipe.model_copy(update={"result": None}))
    assert {d.part for d in found} == {"result"}
    assert all(d.after is None and d.change_percent is None for d in found)
