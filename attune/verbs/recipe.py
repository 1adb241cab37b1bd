"""Recipe files: checked, shown, compared, ranked, imported, and copied out of an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attune.catalog import load_cluster, load_model
from attune.catalog.yaml_file import read_text
from attune.errors import AttuneError, NothingFoundError
from attune.experiment import Experiment
from attune.experiment.events import Completed
from attune.recipe.checks import check_recipe
from attune.recipe.difference import compare
from attune.recipe.files import dump_recipe, load_recipe, read_data
from attune.recipe.imported import count_of, import_recipe, model_of
from attune.recipe.launch_script import read_launch_script
from attune.recipe.library import recipe_files
from attune.recipe.ranking import Board, rank
from attune.report.recipe import CheckedRecipe, ComparedRecipes, RecipeProblem
from attune.search.progress import last


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
    return _write(output, dump_recipe(recipe).encode(), overwrite)


def export_recipe(experiment: str, output: Path, *, overwrite: bool = False) -> Path:
    """Copies the recipe of an experiment to `output`, and gives that path.

    Raises:
        AttuneError: no such experiment, `output` exists, or it cannot be written.
        NothingFoundError: the experiment has no recipe yet.
    """
    found = Experiment.open(experiment)
    if not found.recipe_path.is_file():
        done = last(found.events(), Completed)
        if isinstance(done, Completed) and done.recipe:
            raise AttuneError(
                f"{found.recipe_path} is gone since the campaign ended; put it back from a copy, "
                "or start a new experiment"
            )
        raise NothingFoundError(
            f"experiment `{experiment}` has no recipe yet; `attune report {experiment}` says why, "
            f"`attune tune --resume {experiment}` goes on"
        )
    return _write(output, found.recipe_path.read_bytes(), overwrite)


def _write(output: Path, data: bytes, overwrite: bool) -> Path:
    if output.exists() and not overwrite:
        raise AttuneError(f"{output} exists; give another -o, or --overwrite")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(data)
    except OSError as error:
        raise AttuneError(f"cannot write {output}: {error.strerror}; give another -o") from error
    return output
