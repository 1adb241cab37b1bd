"""Whole campaigns with real megatron-core training on this machine's processors."""

from __future__ import annotations

from pathlib import Path

import pytest

from attune.experiment import Experiment
from attune.experiment.events import Completed, Finished, Verified
from attune.recipe import check_recipe, load_recipe
from attune.search.progress import last

pytestmark = pytest.mark.campaign

TINY = ("tune", "--model", "tiny-moe", "--gpu", "cpu", "--count", "4", "--launcher", "local")
SHORT = (*TINY, "--steps", "8", "--yes", "--experiment-name")


@pytest.fixture
def tiny(tmp_path: Path) -> Experiment:
    return Experiment(tmp_path / "experiments" / "tiny")


def finished(folder: Experiment) -> list[Finished]:
    return [e for e in folder.events() if isinstance(e, Finished)]


def workers(folder: Path) -> list[str]:
    """Worker processes that work in `folder`."""
    ours = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            place = (process / "cwd").resolve()
        except OSError:
            continue
        if "attune.trial.worker" in command and place.is_relative_to(folder):
            ours.append(command)
    return ours


def test_real_training_killed_resumed_and_verified(attune, tiny, tmp_path):
    run = attune(*SHORT, "tiny", "--trials", "3")
    run.wait_until(lambda: "\nrun 2 candidate" in run.text and "run 1 completed" in run.text)
    run.wait_until(lambda: bool(workers(tmp_path)))
    run.process.kill()
    run.process.wait(30)
    before = finished(tiny)
    assert len(before) == 2
    resumed = attune("tune", "--resume", "tiny", "--yes")
    assert resumed.wait() == 0, resumed.text
    after = finished(tiny)
    assert after[:2] == before
    assert all(e.provenance == "measured" for e in after)
    recipe = load_recipe(tiny.recipe_path)
    assert recipe.status == "verified", resumed.text
    assert recipe.gpu.type == "cpu"
    assert recipe.result is not None and recipe.result.tokens_per_s_per_gpu > 0
    assert check_recipe(recipe) == []
    assert workers(tmp_path) == [], "no orphan"


def test_another_learning_rate_is_not_verified(attune, tiny):
    run = attune(*SHORT, "tiny", "--trials", "1", "--worker-option", "learning_rate_scale=1.02")
    assert run.wait() == 1, run.text
    refused = [e for e in tiny.events() if isinstance(e, Verified) and not e.passed]
    failed = {c.name for c in refused[0].checks if c.status == "failed"}
    assert "layout_bound" in failed
    completed = last(tiny.events(), Completed)
    assert isinstance(completed, Completed)
    assert completed.status == "measured" and "layout_bound" in completed.problem
    assert "layout_bound" in run.text
    recipe = load_recipe(tiny.recipe_path)
    assert recipe.status == "measured" and recipe.correctness is not None
    assert recipe.correctness.result == "fail"
    assert check_recipe(recipe) == []


@pytest.mark.parametrize(
    ("layout", "outcome"),
    [
        ("tp=2 pp=1 ep=2", "completed"),
        ("tp=1 pp=2", "completed"),
        ("tp=1 pp=1 ep=2", "completed"),
        ("tp=1 pp=4 rows=16", "out_of_memory"),
    ],
)
def test_single_trials(attune, layout, outcome):
    run = attune("trial", *TINY[1:], "--steps", "4", "--yes", "--layout", layout)
    code = run.wait()
    assert outcome in run.text, run.text
    assert (code == 0) == (outcome == "completed"), run.text
    assert "Traceback" not in run.text
