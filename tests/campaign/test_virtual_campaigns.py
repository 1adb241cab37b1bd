"""Whole campaigns on the virtual cluster, as a user starts them: killed, resumed, refused."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from attune.experiment import Experiment
from attune.experiment.events import Completed, Finished, Proposed
from attune.layout import LayoutTable
from attune.layout.rules import Setting, check
from attune.recipe import check_recipe, layout_of, load_recipe
from attune.search.progress import last

pytestmark = pytest.mark.campaign

GLM = ("tune", "--model", "glm-4.5", "--gpu", "h200", "--count", "128")
SIMULATED = (*GLM, "--launcher", "simulated", "--seed", "1", "--yes", "--experiment-name")


def finished(folder: Experiment) -> list[Finished]:
    return [e for e in folder.events() if isinstance(e, Finished)]


def completed(folder: Experiment) -> Completed:
    event = last(folder.events(), Completed)
    assert isinstance(event, Completed)
    return event


@pytest.fixture
def glm(tmp_path: Path) -> Experiment:
    return Experiment(tmp_path / "experiments" / "glm")


def kill_during_run_3(attune, *words: str) -> None:
    """Kills attune, with no chance to clean up, while run 3 is in flight or just begun."""
    run = attune(*words)
    run.wait_until(lambda: "\nrun 3 candidate" in run.text)
    run.kill()


def test_a_recipe_comes_out(attune, glm):
    run = attune(*SIMULATED, "glm", "--trials", "4")
    assert run.wait() == 0, run.text
    lines = run.text.splitlines()
    assert lines[0].startswith("SIMULATED") and lines[-1].startswith("SIMULATED")
    recipe = load_recipe(glm.recipe_path)
    assert recipe.status == "predicted"
    assert check_recipe(recipe) == []
    inputs = glm.inputs()
    setting = Setting.of(inputs.model, inputs.cluster, inputs.workload)
    assert check(setting, LayoutTable.of([layout_of(recipe)])).legal.all()
    assert (completed(glm).peak_gib or 0) < inputs.cluster.gpu.memory_gib
    report = attune("report", "glm")
    assert report.wait() == 0 and "predicted" in report.text


def test_killed_in_run_3_and_resumed(attune, glm):
    kill_during_run_3(attune, *SIMULATED, "glm", "--trials", "5")
    before = finished(glm)
    assert len(before) >= 3
    resumed = attune("tune", "--resume", "glm", "--yes")
    assert resumed.wait() == 0, resumed.text
    after = finished(glm)
    assert after[: len(before)] == before, "what was done stays as it was"
    candidates = [e.layout for e in after if e.purpose == "candidate"]
    assert len(candidates) == len(set(candidates)) == 5, "nothing is run twice"
    numbers = [e.run for e in glm.events() if isinstance(e, Proposed)]
    assert len(numbers) == len(set(numbers))
    again = attune("tune", "--resume", "glm", "--yes")
    assert again.wait() == 0, again.text
    assert finished(glm) == after, "a campaign that is over runs nothing"


def test_a_killed_campaign_chooses_what_a_whole_one_does(attune, glm):
    run = attune(*SIMULATED, "whole", "--trials", "5")
    assert run.wait() == 0, run.text
    kill_during_run_3(attune, *SIMULATED, "glm", "--trials", "5")
    assert attune("tune", "--resume", "glm", "--yes").wait() == 0
    whole = Experiment(glm.folder.parent / "whole")
    assert [e.layout for e in finished(glm)] == [e.layout for e in finished(whole)]


def test_interrupted_by_the_keyboard(attune, glm):
    run = attune(*SIMULATED, "glm", "--trials", "5")
    run.wait_until(lambda: "\nrun 2 candidate" in run.text)
    run.interrupt()
    assert run.wait(60) == 130, run.text
    assert "Traceback" not in run.text and "--resume glm" in run.text
    assert attune("tune", "--resume", "glm", "--yes").wait() == 0


def test_the_budget_in_gpu_hours_is_hard(attune, glm):
    run = attune(*SIMULATED, "glm", "--trials", "50", "--gpu-hours", "200")
    assert run.wait() == 0, run.text
    assert completed(glm).gpu_hours <= 200


def test_a_budget_under_one_run_is_refused(attune):
    run = attune(*SIMULATED, "glm", "--gpu-hours", "0.5")
    assert run.wait() == 2, run.text
    assert "--gpu-hours 0.5 is less than one run needs" in run.text


def test_a_locked_experiment_is_refused(attune, glm):
    first = attune(*SIMULATED, "glm", "--trials", "30")
    first.wait_until(lambda: "\nrun 1" in first.text)
    os.kill(first.process.pid, signal.SIGSTOP)
    second = attune("tune", "--resume", "glm", "--yes")
    assert second.wait() == 2, second.text
    assert "in use by another process" in second.text and "Traceback" not in second.text


def test_seeds_are_different_clusters(attune, glm):
    figures = []
    for seed in ("1", "2"):
        name = f"seed-{seed}"
        run = attune(*SIMULATED, name, "--trials", "3", "--seed", seed)
        assert run.wait() == 0, run.text
        figures.append(finished(Experiment(glm.folder.parent / name))[0].step_time_s)
    assert figures[0] != figures[1]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--space", "nowhere"), "nowhere"),
        (("--global-batch", "7", "--row-tokens", "8191"), "legal"),
        (("--count", "8"), "no layout"),
    ],
)
def test_nothing_to_search_is_one_message(attune, words, told):
    run = attune(*SIMULATED, "glm", *words)
    assert run.wait() in (1, 2), run.text
    assert told in run.text and "Traceback" not in run.text
