"""Starts a recipe: the layout that it states, by attune's own words, never by the file's text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from attune.layout import LayoutTable, write_layout
from attune.recipe import Recipe, load_recipe
from attune.recipe.job import job_of
from attune.report.trial import TrialRun
from attune.rows.feed import SYNTHETIC, name_rows
from attune.trial.job import Job, Virtual
from attune.trial.launchers import load_launcher
from attune.trial.result import Step
from attune.trial.runner import run
from attune.trial.setup import Setup
from attune.verbs.suggest import suggestions
from attune.verbs.target import Target
from attune.verbs.trial import ChosenLauncher, find_launcher, free_directory, refuse_illegal


@dataclass(frozen=True, kw_only=True, slots=True)
class RecipeStart:
    """A recipe ready to run: nothing is started yet."""

    job: Job
    launcher: ChosenLauncher
    rows: str
    """Which rows it trains on, in words, and whether they are the recipe's."""

    @property
    def target(self) -> Target:
        """Model, cluster and workload."""
        job = self.job
        return Target(model=job.model, cluster=job.cluster, workload=job.workload)

    @property
    def words(self) -> str:
        """`20 steps of GLM-4.5 on 128 H200 with miles (slurm), tp=4 ...`."""
        job = self.job
        return (
            f"{job.workload.steps} steps of {self.target.words} with {job.framework} "
            f"({self.launcher.name}), {write_layout(job.layout)}"
        )


def prepare_recipe(
    path: Path,
    *,
    launcher: str = "auto",
    options: Mapping[str, str] | None = None,
    steps: int | None = None,
    rows: str | None = None,
    checkout: str | None = None,
    virtual: Virtual | None = None,
    limit_s: float = 1800.0,
) -> RecipeStart:
    """What running the recipe at `path` would start.

    `run:`, `env:` and `patches:` of the file are not used.

    Args:
        path: the recipe.
        launcher: what starts it; `auto` takes the one that fits this machine.
        options: what the site tells the launcher.
        steps: steps of the run; None takes the recipe's.
        rows: file of rows; None takes synthetic ones.
        checkout: folder of the framework's checkout on the nodes.
        virtual: the virtual cluster of a simulated run.
        limit_s: wall time after which the run is stopped as `timed_out`.

    Raises:
        AttuneError: no such recipe, or one that names what attune does not know; rows that do not
            fit; a framework that cannot train it.
        LayoutError: a rule is broken; the message names it and its cure.
    """
    recipe = load_recipe(path)
    job = job_of(recipe, steps=steps, rows=rows)
    target = Target(model=job.model, cluster=job.cluster, workload=job.workload)
    refuse_illegal(target, job.layout, job.framework, job.setup.version)
    chosen = find_launcher(target, launcher, dict(options or {}))
    workload = name_rows(job.workload, job.model.vocabulary, real=not chosen.simulated)
    job = replace(
        job,
        workload=workload,
        setup=Setup(checkout=checkout) if checkout is not None else job.setup,
        virtual=virtual or Virtual(),
        limit_s=limit_s,
    )
    return RecipeStart(job=job, launcher=chosen, rows=rows_words(recipe, job))


def rows_words(recipe: Recipe, job: Job) -> str:
    """Which rows a run trains on, and whether they are those of the recipe."""
    workload = job.workload
    used = workload.rows
    if used == SYNTHETIC:
        used = f"synthetic rows, seed {workload.seed}"
    wanted = recipe.workload.dataset.rows_sha256 if recipe.workload.dataset else None
    if wanted is None:
        return f"{used}; the recipe gives no digest of its rows ({recipe.workload.rows})"
    if workload.rows_sha256 == wanted:
        return f"{used}: the recipe's own (sha256 {wanted[:12]})"
    if used == recipe.workload.rows:
        other = "is not made here" if workload.rows_sha256 is None else "differs by the steps"
        return f"{used}, as the recipe names them; their digest {other}"
    return (
        f"{used}, not the recipe's ({recipe.workload.rows}, sha256 {wanted[:12]}): time and memory "
        "compare, losses do not"
    )


def run_recipe(
    start: RecipeStart,
    *,
    directory: Path | None = None,
    watch: Callable[[Step], None] | None = None,
) -> TrialRun:
    """Runs it as a trial, and reads the outcome from the logs.

    Raises:
        AttuneError: the directory holds a trial already, or the launcher cannot start.
        LayoutError: the framework cannot train the layout.
    """
    job, launcher = start.job, start.launcher
    place = free_directory("trials", directory)

    def sees(step: Step) -> bool:
        if watch is not None:
            watch(step)
        return True

    result = run(job, load_launcher(launcher.name, launcher.options), place, watch=sees)
    table = LayoutTable.of([job.layout])
    return TrialRun(
        layout=write_layout(job.layout),
        directory=place,
        launcher_reason=launcher.reason,
        result=result,
        predicted=suggestions(start.target, table, framework=job.framework)[0],
    )
