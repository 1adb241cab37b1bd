from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote

import pytest
from hostile import HOSTILE
from pages import Page

from attune.errors import AttuneError
from attune.recipe import Recipe, load_recipe
from attune.recipe.library import recipe_files
from attune.report.site import RecipeFile, build_site


def _file(path: Path) -> RecipeFile:
    return RecipeFile(path=path, recipe=load_recipe(path), text=path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build_site([_file(path) for path in recipe_files()], folder)
    return folder


def test_every_link_leads_to_a_file_of_the_site(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    for file in pages:
        for link in Page(file.read_text(encoding="utf-8")).links:
            if not link.startswith(("https://", "http://", "#", "data:,")):
                assert (file.parent / unquote(link)).is_file(), f"{file}: {link}"


def test_a_board_ranks_and_shows_origin(site: Path) -> None:
    text = (site / "glm-4.5" / "h200" / "index.html").read_text(encoding="utf-8")
    assert text.index("565.4") < text.index("TP2 PP8 EP16 DP8")
    assert '<span class="badge published">published</span>' in text
    assert "GLM-4.5 on other GPUs" in text and 'href="../../glm-4.5/h100/index.html"' in text


def test_the_yaml_is_the_file_itself(site: Path) -> None:
    for path in recipe_files():
        written = next(site.rglob(f"{path.stem}.yaml"))
        if path.parts[-3] in written.parts and path.parts[-2] in written.parts:
            assert written.read_bytes() == path.read_bytes()


def test_two_recipes_of_one_name_have_a_page_each(tmp_path: Path) -> None:
    path = recipe_files()[0]
    twin = RecipeFile(path=Path("other") / path.name, recipe=load_recipe(path), text="x")
    built = build_site([_file(path), twin], tmp_path)
    assert (built.recipes, built.boards) == (2, 1)
    names = {file.name for file in tmp_path.rglob("*.yaml")}
    assert names == {path.name, f"{path.stem}-2.yaml"}


def _hostile(recipe: Recipe, text: str) -> Recipe:
    layout, gpu = recipe.layout, recipe.gpu
    assert recipe.attune is not None and recipe.correctness is not None
    return recipe.model_copy(
        update={
            "model": text,
            "gpu": gpu.model_copy(update={"type": text, "instance": text}),
            "author": recipe.author.model_copy(update={"name": text, "url": text}),
            "stack": recipe.stack.model_copy(update={"framework": text, "network": text}),
            "layout": layout.model_copy(
                update={"label": text, "summary": text, "highlights": text}
            ),
            "correctness": recipe.correctness.model_copy(
                update={"summary": text, "reference": text}
            ),
            "env": {text: text},
            "run": text,
            "notes": text,
            "attune": recipe.attune.model_copy(update={"model_id": text, "source": text}),
        }
    )


def test_hostile_words_come_out_inert(tmp_path: Path) -> None:
    recipe = load_recipe(next(p for p in recipe_files() if p.stem == "published-tp4-pp16-ep8"))
    files = [
        RecipeFile(path=Path(f"{text}.yaml"), recipe=_hostile(recipe, text), text=text)
        for text in HOSTILE
    ]
    build_site(files, tmp_path)
    for file in tmp_path.rglob("*.html"):
        assert Page(file.read_text(encoding="utf-8")).harm == [], file
    written = {file.resolve() for file in tmp_path.rglob("*")}
    assert all(file.is_relative_to(tmp_path.resolve()) for file in written)
    for script in tmp_path.rglob("*.js"):
        if script.parent.name != "assets":
            text = script.read_text(encoding="utf-8")
            assert text.startswith("attuneRecipe(") and text.count("\n") == 1
            assert json.loads(f"[{text[len('attuneRecipe(') : -3]}]")


def test_a_folder_that_cannot_be_written_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "site").write_text("a file in the way")
    with pytest.raises(AttuneError, match=r"cannot write .*give another -o"):
        build_site([_file(recipe_files()[0])], tmp_path / "site")
