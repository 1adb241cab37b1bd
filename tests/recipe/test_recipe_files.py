from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from attune.catalog import shipped
from attune.errors import AttuneError
from attune.recipe.files import dump_recipe, load_recipe, parse_text
from attune.recipe.schema import Recipe, json_schema, unknown_fields

CASES = sorted((Path(__file__).parents[1] / "cases" / "recipes").glob("*.yaml"))


def _body(path: Path) -> str:
    return path.read_text(encoding="utf-8").split("\n", 2)[2]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_published_recipe_is_read_and_written_without_loss(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recipe = load_recipe(path)
    written = dump_recipe(recipe)
    assert parse_text(written) == parse_text(path.read_text(encoding="utf-8"))
    if recipe.model != "GLM-4.5":  # its page folds long lines in another way
        assert written == _body(path)


def test_there_are_four_published_recipes() -> None:
    assert len(CASES) == 4


def test_unknown_fields_are_kept_and_warned_about(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(CASES[0].read_text().replace("  count: 128", "  count: 128\n  colour: green"))
    with pytest.warns(UserWarning, match=r"gpu\.colour"):
        recipe = load_recipe(path)
    assert unknown_fields(recipe) == ["gpu.colour"]
    assert "  colour: green\n" in dump_recipe(recipe)


def test_numbers_stay_exact() -> None:
    text = CASES[0].read_text().replace("transformer_engine: 2.17.0", "transformer_engine: 2.10")
    with pytest.raises(ValueError, match="transformer_engine"):
        Recipe.model_validate(parse_text(text))


BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (BOMB, "anchors"),
        ("run: !!python/object/apply:os.system ['true']\n", "tags"),
        ("run: !secret x\n", "tags"),
        ("x: " + "[" * 40 + "]" * 40, "nested"),
        ("x: " + "[" * 20000, "nested"),
        ("model: a\nmodel: b\n", "given twice"),
        ("model: [a\n", "not valid YAML"),
        ("day: 2026-13-45\n", "not valid YAML"),
        ("- a\n- b\n", "mapping"),
        ("", "mapping"),
        ("\x00", "not valid YAML"),
    ],
    ids=lambda value: value[:12],
)
def test_hostile_yaml_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(AttuneError, match=reason):
        load_recipe(path)


def test_large_missing_and_binary_files_are_refused(tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    large.write_text("x: " + "y" * 1_000_001)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00\x01")
    for path, reason in (
        (large, "over"),
        (tmp_path / "none.yaml", "cannot read"),
        (binary, "cannot read"),
    ):
        with pytest.raises(AttuneError, match=reason):
            load_recipe(path)


def test_json_schema_names_every_block() -> None:
    properties = json_schema()["properties"]
    assert list(properties)[:4] == ["schema_version", "model", "gpu", "author"]
    assert "attune" in properties


def test_the_shipped_json_schema_is_that_of_the_code() -> None:
    file = shipped("recipes") / "schema" / "recipe.schema.json"
    assert json.loads(file.read_text(encoding="utf-8")) == json_schema()
