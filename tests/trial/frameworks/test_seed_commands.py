"""The command of each published recipe, rebuilt from its layout block."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path

import pytest

from attune.catalog import load_cluster, load_model
from attune.catalog.accepted_flags import split_flags
from attune.recipe import layout_of, load_recipe
from attune.recipe.schema import Recipe
from attune.trial.frameworks import load_framework
from attune.trial.job import Job
from attune.trial.setup import Setup
from attune.workload import Optimization, Workload

# Published recipes, as they stand on their pages (sources in tests/cases/README.md).
RECIPES = sorted((Path(__file__).parents[2] / "cases" / "recipes").glob("*.yaml"))
HYPERPARAMETERS = {
    # What both arms share, and no layout says.
    "miles": Optimization(auxiliary_loss=1e-3),
    "slime": Optimization(weight_decay=0.1, adam_beta2=0.98),
}


def job_of(recipe: Recipe) -> Job:
    framework = recipe.stack.framework.split()[0]
    return Job(
        model=load_model({"GLM-4.5": "glm-4.5"}.get(recipe.model, "glm-5.2")),
        cluster=load_cluster(recipe.gpu.type, recipe.gpu.count),
        workload=Workload(
            row_tokens=recipe.workload.row_tokens,
            global_batch=recipe.workload.global_batch,
            steps=recipe.result.steps_per_run,
            optimization=HYPERPARAMETERS[framework],
        ),
        layout=layout_of(recipe),
        framework=framework,
        setup=Setup(environment=dict(recipe.env), environment_on_nodes=True),
    )


def command_of(run: str) -> Counter[tuple[str, ...]]:
    """Script, and flags with their values, whatever their order."""
    lines = run.replace("\\\n", " ").splitlines()
    (line,) = [line for line in lines if line.startswith("python3 train")]
    words = shlex.split(line)
    flags = [(name, *values) for name, values in split_flags(words) if name]
    return Counter([tuple(words[:2]), *flags])


def exports_of(run: str) -> dict[str, str]:
    lines = [line.removeprefix("export ") for line in run.splitlines() if line.startswith("export")]
    pairs = (line.split("  #")[0].split("=", 1) for line in lines)
    return {name: value.strip("'") for name, value in pairs}


def test_all_published_recipes_are_here() -> None:
    assert len(RECIPES) == 4


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_command_is_the_published_one(path: Path) -> None:
    recipe = load_recipe(path)
    job = job_of(recipe)
    built = load_framework(job.framework).run_block(job)
    wanted, got = command_of(recipe.run), command_of(built)
    assert got == wanted, f"too many: {got - wanted}; missing: {wanted - got}"
    assert exports_of(built) == exports_of(recipe.run)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_trial_runs_the_same_flags(path: Path) -> None:
    """The driver's file holds them all, and the memory hook beside them."""
    import json

    recipe = load_recipe(path)
    command = load_framework(job_of(recipe).framework).prepare(job_of(recipe))
    config = json.loads(command.files["driver.json"])
    flags = [(n, *v) for n, v in split_flags([*config["before"], *config["after"]])]
    published = {
        (name, *(v for v in values if v != "${MODEL_ARGS[@]}"))
        for name, *values in command_of(recipe.run)
        if name.startswith("--")
    }
    hook = ("--custom-megatron-before-train-step-hook-path", "attune_memory_hook.report")
    assert set(flags) - published == {hook}
    assert published <= set(flags)
    assert command.starter == "ray_driver"
    assert not {"attune_memory_hook.py", "pretokenized_sft_rollout.py"} - set(command.files)
