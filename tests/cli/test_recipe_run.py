from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from attune.recipe import dump_recipe, load_recipe
from attune.recipe.job import job_of
from attune.recipe.library import recipe_files
from attune.rows.feed import name_rows
from attune.trial.worker.config import WorkerConfig
from attune.verbs.recipe_run import rows_words

EXAMPLE = Path(__file__).resolve().parents[2] / "experiments" / "example" / "recipe.yaml"
BRIDGE = next(path for path in recipe_files() if path.stem == "megatron-bridge-ep16")
SIMULATED = ("--launcher", "simulated")


def test_a_recipe_runs_on_the_virtual_cluster(attune):
    answer = attune("recipe", "run", EXAMPLE, *SIMULATED, "--steps", 6)
    assert answer.code == 0, answer.err
    assert "step 6/6" in answer.out and "completed" in answer.out
    assert "synthetic rows, seed 1234, as the recipe names them" in answer.out
    told = json.loads(attune("recipe", "run", EXAMPLE, *SIMULATED, "--steps", 6, "--json").out)
    assert told["result"]["outcome"] == "completed"


def test_which_rows_are_used_is_said(attune):
    recipe = load_recipe(EXAMPLE)
    job = job_of(recipe)
    own = name_rows(job.workload, job.model.vocabulary, real=True)
    assert "the recipe's own (sha256 d5bebad641c9)" in rows_words(
        recipe, replace(job, workload=own)
    )
    conversations = recipe.workload.model_copy(update={"rows": "SFT conversations"})
    told = rows_words(recipe.model_copy(update={"workload": conversations}), job)
    assert "not the recipe's (SFT conversations, sha256 d5bebad641c9)" in told
    told = rows_words(load_recipe(BRIDGE), job_of(load_recipe(BRIDGE)))
    assert "the recipe gives no digest of its rows" in told


def test_nothing_is_spent_without_a_yes(attune, tmp_path):
    answer = attune("recipe", "run", EXAMPLE, "--launcher", "local", "--steps", 3, "-o", tmp_path)
    assert answer.code == 2 and "Run 3 steps of tiny-moe on 2 CPU" in answer.err
    assert list(tmp_path.iterdir()) == []


def test_text_of_the_file_is_never_run(attune, tmp_path):
    harmful = {"env": {"LD_PRELOAD": "/nowhere.so"}, "run": "touch harmed\n", "patches": ["x"]}
    recipe = load_recipe(EXAMPLE).model_copy(update=harmful)
    file, place = tmp_path / "recipe.yaml", tmp_path / "run"
    file.write_text(dump_recipe(recipe))
    assert attune("recipe", "run", file, *SIMULATED, "--steps", 4, "-o", place).code == 0
    written = "".join(path.read_text() for path in place.iterdir() if path.is_file())
    assert "harmed" not in written and "LD_PRELOAD" not in written


def test_the_run_is_what_the_recipe_states(attune, tmp_path):
    answer = attune("recipe", "run", EXAMPLE, *SIMULATED, "--steps", 5, "-o", tmp_path / "run")
    assert answer.code == 0
    config = WorkerConfig.model_validate_json((tmp_path / "run" / "worker.json").read_bytes())
    assert (config.layout.rows_per_microbatch, config.workload.steps) == (2, 5)


@pytest.mark.parametrize("change", ["layout", "model"])
def test_what_cannot_run_is_told(attune, tmp_path, change):
    recipe = load_recipe(BRIDGE)
    if change == "layout":
        block = recipe.attune.model_copy(update={"layout": "tp=3"})
        recipe = recipe.model_copy(update={"attune": block})
    else:
        recipe = recipe.model_copy(update={"model": "Some-Model", "attune": None})
    file = tmp_path / "recipe.yaml"
    file.write_text(dump_recipe(recipe))
    answer = attune("recipe", "run", file, *SIMULATED)
    reason = "cannot run" if change == "layout" else "no model `Some-Model`"
    assert answer.code == 2 and reason in answer.err
