"""Recipe files: checked, shown, compared, ranked and imported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attune.catalog import load_cluster, load_model
from attune.catalog.yaml_file import read_text
from attune.errors import AttuneError, NothingFoundError
from attune.recipe.checks import check_recipe
from attune.recipe.difference import compare
from attune.recipe.files import dump_recipe, load_recipe, read_data
from attune.recipe.imported import count_of, import_recipe, model_of
from attune.recipe.launch_script import read_launch_script
from attune.recipe.library import recipe_files
from attune.recipe.ranking import Board, rank
from attune.report.recipe import CheckedRecipe, ComparedRecipes, RecipeProblem
from attune.verbs.export import write_text


def verify_recipe(path: Path) -> CheckedRecipe:
    """Schema and arithmetic of the recipe at `path`; nothing in it is run.

    Raises:
        AttuneError: no such file, or not YAML.
    """
    problems = check_recipe(read_data(path))
    return CheckedRecipe(
        path=path,
        problems=tuple(RecipeProblem(field=p.field, reason=p.reason) for p in problems),
    )


def compare_recipes(first: Path, second: Path) -> ComparedRecipes:
    """What the second recipe does differently, by meaning.

    Raises:
        AttuneError: a file is missing or no recipe.
    """
    differences = compare(load_recipe(first), load_recipe(second))
    return ComparedRecipes(first=first, second=second, differences=tuple(differences))


def rank_recipes(places: Sequence[Path] = ()) -> list[Board]:
    """Boards of the recipes in those files and folders; of the shipped ones where none is named.

    Raises:
        AttuneError: a place that does not exist, or a file that is no recipe.
        NothingFoundError: the places hold no recipe.
    """
    return rank((file, load_recipe(file)) for file in recipes_in(places))


def recipes_in(places: Sequence[Path]) -> list[Path]:
    """The recipe files in those files and folders; the shipped ones where none is named.

    Raises:
        NothingFoundError: the places hold no recipe.
    """
    files = [file for place in places for file in _recipes_of(place)] if places else recipe_files()
    if not files:
        raise NothingFoundError(f"no recipe (*.yaml) in {', '.join(map(str, places))}")
    return files


def _recipes_of(place: Path) -> list[Path]:
    return sorted(place.rglob("*.yaml")) if place.is_dir() else [place]


def import_script(
    script: Path,
    output: Path,
    *,
    gpu: str,
    model: str | None = None,
    count: int | None = None,
    overwrite: bool = False,
) -> Path:
    """Writes the reference recipe of a launch script to `output`; the script is read, never run.

    Raises:
        AttuneError: the script starts no known trainer, does not say what it trains or on how many
            GPUs, or `output` exists.
    """
    text = read_text(script)
    read = read_launch_script(text, str(script))
    gpus = count or count_of(read)
    if gpus is None:
        raise AttuneError(f"{script} does not say on how many GPUs it runs; pass --count")
    recipe = import_recipe(
        read,
        text,
        model=load_model(model) if model else model_of(read),
        cluster=load_cluster(gpu, gpus),
        source=script.name,
    )
    return write_text(output, dump_recipe(recipe), overwrite=overwrite)
