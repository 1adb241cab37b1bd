"""A campaign's winner, or a recipe, in the form that another program takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from attune.catalog.yaml_file import read_text
from attune.errors import AttuneError, NothingFoundError
from attune.experiment import Experiment
from attune.experiment.events import Completed
from attune.recipe import Recipe, layout_of, load_recipe
from attune.recipe.job import job_of
from attune.search.progress import last
from attune.trial.job import Job
from attune.verbs.export_text import FORMS

Form = Literal["recipe", "script", "sbatch", "ray", "k8s", "megatron-bridge", "env"]


def export_recipe(
    source: str,
    output: Path,
    *,
    to: Form = "recipe",
    options: Mapping[str, str] | None = None,
    checkout: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Writes an export to `output`, and gives that path; a script may be run as it lies.

    All else is as in `export_text`.

    Raises:
        AttuneError: `output` exists, or it cannot be written.
    """
    text = export_text(source, to, options=options, checkout=checkout)
    return write_text(output, text, overwrite=overwrite)


def export_text(
    source: str,
    to: Form = "recipe",
    *,
    options: Mapping[str, str] | None = None,
    checkout: str | None = None,
) -> str:
    """The text of an experiment's winner, or of the recipe file at `source`, in that form.

    Args:
        source: id or folder of an experiment, or the path of a recipe.
        to: `recipe` as it stands; a `script` for every node; a job for `sbatch`; a script that
            submits to `ray`; a TrainJob for `k8s`; the `megatron-bridge` command; or `env`, the
            variables alone, to be sourced.
        options: what the site tells the launcher of that form, as partition or image.
        checkout: folder of the framework's checkout on the nodes.

    Raises:
        AttuneError: no such experiment or recipe, or one that names what attune does not know.
        LayoutError: the framework cannot say the layout.
        NothingFoundError: the experiment has no recipe yet.
    """
    file = find_recipe(source)
    if to == "recipe":
        return read_text(file)
    recipe = load_recipe(file)
    job = _job(source, recipe)
    if to == "megatron-bridge":
        job = replace(job, framework=to)
    if checkout is not None:
        job = replace(job, setup=job.setup.model_copy(update={"checkout": checkout}))
    return FORMS[to](job, recipe.env, options or {})


def find_recipe(source: str) -> Path:
    """The recipe file at `source`, or that of the experiment of that id or folder.

    Raises:
        AttuneError: there is none.
        NothingFoundError: the experiment has no recipe yet.
    """
    if Path(source).is_file():
        return Path(source)
    found = Experiment.open(source)
    if found.recipe_path.is_file():
        return found.recipe_path
    done = last(found.events(), Completed)
    if isinstance(done, Completed) and done.recipe:
        raise AttuneError(
            f"{found.recipe_path} is gone since the campaign ended; put it back from a copy, "
            "or start a new experiment"
        )
    raise NothingFoundError(
        f"experiment `{source}` has no recipe yet; `attune report {source}` says why, "
        f"`attune tune --resume {source}` goes on"
    )


def _job(source: str, recipe: Recipe) -> Job:
    """The winner's own run; of a recipe file, what the recipe tells of it."""
    if Path(source).is_file():
        return job_of(recipe)
    inputs = Experiment.open(source).inputs()
    return Job(
        model=inputs.model,
        cluster=inputs.cluster,
        workload=inputs.workload,
        layout=layout_of(recipe),
        framework=inputs.framework,
        setup=inputs.setup,
        limit_s=inputs.trial_limit_s,
    )


def write_text(output: Path, text: str, *, overwrite: bool = False) -> Path:
    """Writes a text, and gives its path; a script may be run as it lies.

    Raises:
        AttuneError: `output` exists, or it cannot be written.
    """
    if output.exists() and not overwrite:
        raise AttuneError(f"{output} exists; give another -o, or --overwrite")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
        if text.startswith("#!"):
            output.chmod(output.stat().st_mode | 0o111)
    except OSError as error:
        raise AttuneError(f"cannot write {output}: {error.strerror}; give another -o") from error
    return output
