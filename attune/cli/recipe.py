"""`attune recipe`: recipe files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attune.cli.options import (
    AsJson,
    GpuName,
    LauncherName,
    LauncherOption,
    TimeLimit,
    VirtualName,
    VirtualSeed,
    Yes,
    pairs,
)

app = typer.Typer(help="Check, show, compare, rank, run and import recipes.", no_args_is_help=True)


@app.callback()
def recipe() -> None:
    """Check, show, compare, rank, run and import recipes."""


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="The recipe.")], as_json: AsJson = False
) -> None:
    """Check schema and arithmetic of a recipe.

    Each wrong field is named with its reason. The recipe may be ours or somebody else's.
    """
    from attune.cli.output import show
    from attune.report.recipe import draw_checked_recipe
    from attune.verbs.recipe import verify_recipe

    checked = verify_recipe(file)
    show(checked, draw_checked_recipe, as_json)
    if not checked.passed:
        raise typer.Exit(1)


@app.command("show")
def show_page(
    file: Annotated[Path, typer.Argument(help="The recipe.")], as_json: AsJson = False
) -> None:
    """Show a recipe: layout, figures with their origin, stack, environment, command, notes."""
    from attune.cli.output import show
    from attune.recipe import load_recipe
    from attune.report.recipe import draw_recipe

    show(load_recipe(file), draw_recipe, as_json)


@app.command()
def diff(
    first: Annotated[Path, typer.Argument(help="A recipe.")],
    second: Annotated[Path, typer.Argument(help="The recipe to compare with it.")],
    as_json: AsJson = False,
) -> None:
    """Compare two recipes by meaning: layout, workload, command, environment, stack, result."""
    from attune.cli.output import show
    from attune.report.recipe import draw_comparison
    from attune.verbs.recipe import compare_recipes

    show(compare_recipes(first, second), draw_comparison, as_json)


@app.command()
def rank(
    places: Annotated[
        list[Path] | None, typer.Argument(help="Recipes or folders [the shipped recipes].")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Rank recipes by tokens/s/GPU, for each model and GPU.

    A predicted recipe takes no place among those that ran.
    """
    from attune.cli.output import show
    from attune.report.recipe import draw_boards
    from attune.verbs.recipe import rank_recipes

    show(rank_recipes(places or ()), draw_boards, as_json)


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="The recipe.")],
    launcher: LauncherName = "auto",
    launcher_option: LauncherOption = None,
    virtual: VirtualName = "near",
    seed: VirtualSeed = 0,
    steps: Annotated[
        int | None, typer.Option("--steps", help="Steps of the run [the recipe's].")
    ] = None,
    rows: Annotated[
        str | None, typer.Option("--rows", help="A file of rows [synthetic rows].")
    ] = None,
    checkout: Annotated[
        str | None,
        typer.Option("--checkout", help="Folder of the framework's checkout on the nodes."),
    ] = None,
    time_limit: TimeLimit = 1800.0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Directory of the run.")
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Run a recipe: the layout that it states, as a trial.

    Asks first. The command, environment and patches in the file are not used.

    Example: attune recipe run recipe.yaml --launcher slurm
    """
    from attune.cli.consent import ask
    from attune.cli.output import console, show
    from attune.report.trial import draw_trial, step_line
    from attune.report.words import say
    from attune.trial.job import Virtual
    from attune.verbs.recipe_run import prepare_recipe, run_recipe

    start = prepare_recipe(
        file,
        launcher=launcher,
        options=pairs(launcher_option),
        steps=steps,
        rows=rows,
        checkout=checkout,
        virtual=Virtual(kind=virtual, seed=seed),
        limit_s=time_limit,
    )
    total = start.job.workload.steps
    if not as_json:
        say(console(), f"rows: {start.rows}")
    if not (start.launcher.simulated or yes):
        ask(f"Run {start.words}?")
    told = console()
    done = run_recipe(
        start,
        directory=output,
        watch=None if as_json else lambda step: say(told, step_line(step, total)),
    )
    show(done, draw_trial, as_json)
    if not done.completed:
        raise typer.Exit(1)


@app.command("import")
def import_(
    script: Annotated[Path, typer.Argument(help="Launch script of Megatron-LM, miles or slime.")],
    gpu: GpuName,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Model, where the script does not say.")
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", help="GPUs, where the script does not say.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The recipe.")] = Path(
        "recipe.yaml"
    ),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
) -> None:
    """Make a reference recipe from a launch script, which is read and never run.

    Example: attune recipe import train.sh --gpu h100 -o recipe.yaml
    """
    from attune.verbs.recipe import import_script

    written = import_script(script, output, gpu=gpu, model=model, count=count, overwrite=overwrite)
    typer.echo(written)
