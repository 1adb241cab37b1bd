"""A recipe is read, written and edited without loss, whatever is in it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from any_recipe import recipes
from hypothesis import HealthCheck, Phase, given, seed, settings

from attune.errors import AttuneError
from attune.recipe.edit import edit_text
from attune.recipe.files import dump_recipe, load_recipe, parse_text
from attune.recipe.library import recipe_files
from attune.recipe.schema import Recipe

_PARTS = 4
_MANY = settings(
    max_examples=1000 // _PARTS,
    phases=[Phase.generate],
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("part", range(_PARTS))
def test_generated_recipes(part: int) -> None:
    seed(part)(_MANY(given(recipes())(_goes_round)))()


def _goes_round(data: dict[str, Any]) -> None:
    recipe = Recipe.model_validate(data)
    text = dump_recipe(recipe)
    read = parse_text(text)
    assert read == recipe.model_dump(exclude_unset=True)
    assert dump_recipe(Recipe.model_validate(read)) == text
    edited = parse_text(edit_text(text, {"model": "another"}))
    assert edited == {**read, "model": "another"}
    assert list(edited) == list(read)


@pytest.mark.parametrize("path", recipe_files(), ids=lambda path: "-".join(path.parts[-3:]))
def test_shipped_recipes(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recipe = load_recipe(path)
    data = parse_text(path.read_text(encoding="utf-8"))
    assert parse_text(dump_recipe(recipe)) == data
    assert list(parse_text(dump_recipe(recipe))) == list(data)
    edited = parse_text(edit_text(path.read_text(encoding="utf-8"), {"status": "reference"}))
    assert edited == {**data, "status": "reference"}


def test_fifty_megabytes_are_refused_after_one(tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    with file.open("wb") as stream:
        stream.write(b"run: |\n")
        stream.truncate(50_000_000)
    with pytest.raises(AttuneError, match="over 1000000 bytes"):
        load_recipe(file)
