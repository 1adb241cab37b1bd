"""Checks a recipe file and copies an experiment's recipe out."""

from __future__ import annotations

from pathlib import Path

from attune.errors import AttuneError, NothingFoundError
from attune.experiment import Experiment
from attune.experiment.events import Completed
from attune.recipe.checks import check_recipe
from attune.recipe.files import read_data
from attune.report.recipe import CheckedRecipe, RecipeProblem
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
    if output.exists() and not overwrite:
        raise AttuneError(f"{output} exists; give another -o, or --overwrite")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(found.recipe_path.read_bytes())
    except OSError as error:
        raise AttuneError(f"cannot write {output}: {error.strerror}; give another -o") from error
    return output
