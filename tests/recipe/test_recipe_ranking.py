from __future__ import annotations

from pathlib import Path

import pytest

from attune.recipe import Recipe, load_recipe
from attune.recipe.library import recipe_files
from attune.recipe.ranking import rank

FOLDER = Path(__file__).resolve().parents[1] / "cases" / "recipes"


def _predicted(recipe: Recipe, rate: float) -> Recipe:
    assert recipe.result is not None
    result = recipe.result.model_copy(update={"tokens_per_s_per_gpu": rate, "measured": None})
    return recipe.model_copy(update={"status": "predicted", "result": result, "attune": None})


def test_the_published_page_keeps_its_order() -> None:
    files = sorted(FOLDER.glob("glm-5.2*.yaml"))
    (board,) = rank((file, load_recipe(file)) for file in files)
    rates = [row.recipe.result.tokens_per_s_per_gpu for row in board.ranked if row.recipe.result]
    assert rates == [146.8, 146.68, 136.48]
    assert [row.place for row in board.ranked] == [1, 2, 3]
    assert (board.model, board.gpu) == ("GLM-5.2", "B200")


def test_a_prediction_takes_no_place_above_what_ran() -> None:
    file = next(FOLDER.glob("*cp8.yaml"))
    ran = load_recipe(file)
    boards = rank([(Path("dream.yaml"), _predicted(ran, 900.0)), (file, ran)])
    assert [(row.path.name, row.place, row.provenance) for row in boards[0].ranked] == [
        (file.name, 1, "published"),
        ("dream.yaml", None, "predicted"),
    ]


def test_one_board_for_each_model_and_gpu() -> None:
    boards = rank((file, load_recipe(file)) for file in recipe_files())
    names = [(board.model, board.gpu) for board in boards]
    assert len(names) == len(set(names)) and ("GLM-4.5", "H200") in names
    assert sum(len(board.ranked) for board in boards) == len(recipe_files())


@pytest.mark.parametrize(
    ("status", "claimed", "told"),
    [
        ("predicted", "verified", "predicted"),
        ("reference", "measured", "published"),
        ("measured", "verified", "measured"),
        ("verified", "measured", "measured"),
        ("verified", "published", "published"),
    ],
)
def test_a_provenance_claims_no_more_than_the_status(status: str, claimed: str, told: str) -> None:
    recipe = load_recipe(next(file for file in recipe_files() if "published" in file.name))
    assert recipe.attune is not None
    block = recipe.attune.model_copy(update={"provenance": claimed})
    recipe = recipe.model_copy(update={"status": status, "attune": block})
    ((row,),) = (board.ranked for board in rank([(Path("recipe.yaml"), recipe)]))
    assert row.provenance == told
    assert (row.place is None) == (told == "predicted")
