"""Whole campaigns on the virtual cluster, as a user starts them: killed, resumed, refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from attune.experiment import Experiment
from attune.experiment.events import Completed, Finished, Proposed
from attune.layout import LayoutTable
from attune.layout.rules import Setting, check
from attune.recipe import check_recipe, layout_of, load_recipe
from attune.search.progress import last

GLM = ["tune", "--model", "glm-4.5", "--gpu", "h200", "--count", "128"]
SIMULATED = [*GLM, "--launcher", "simulated", "--seed", "1", "--yes"]


def command(*words: str) -> list[str]:
    return [sys.executable, "-c", "from attune.cli import main; main()", *words]


def attune(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words),
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=400,
        stdin=subprocess.DEVNULL,
    )


def environment(home: Path) -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[2])
    return {**os.environ, "ATTUNE_HOME": str(home), "PYTHONPATH": root, "NO_COLOR": "1"}


def experiment(home: Path, name: str) -> Experiment:
    return Experiment(home / "experiments" / name)


def kill_during_run(home: Path, run: int, *words: str) -> None:
    """Starts attune and kills it, with no chance to clean up, while `run` is in flight."""
    process = subprocess.Popen(
        command(*words), env=environment(home), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith(f"run {run} candidate"):
                break
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait(30)


@pytest.mark.campaign
def test_a_recipe_comes_out(tmp_path: Path) -> None:
    done = attune(tmp_path, *SIMULATED, "--trials", "4", "--experiment-name", "glm")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("SIMULATED") and lines[-1].startswith("SIMULATED")
    folder = experiment(tmp_path, "glm")
    recipe = load_recipe(folder.recipe_path)
    assert recipe.status == "predicted"
    assert check_recipe(yaml.safe_load(folder.recipe_path.read_text())) == []
    inputs = folder.inputs()
    setting = Setting.of(inputs.model, inputs.cluster, inputs.workload)
    assert check(setting, LayoutTable.of([layout_of(recipe)])).legal.all()
    completed = last(folder.events(), Completed)
    assert isinstance(completed, Completed) and completed.peak_gib is not None
    assert completed.peak_gib < inputs.cluster.gpu.memory_gib
    report = attune(tmp_path, "report", "glm")
    assert report.returncode == 0 and "predicted" in report.stdout


@pytest.mark.campaign
def test_killed_in_run_3_and_resumed(tmp_path: Path) -> None:
    words = [*SIMULATED, "--trials", "5", "--experiment-name", "glm"]
    kill_during_run(tmp_path, 3, *words)
    folder = experiment(tmp_path, "glm")
    before = [e for e in folder.events() if isinstance(e, Finished)]
    assert len(before) == 3
    resumed = attune(tmp_path, "tune", "--resume", "glm", "--yes")
    assert resumed.returncode == 0, resumed.stderr
    events = folder.events()
    finished = [e for e in events if isinstance(e, Finished)]
    assert finished[:3] == before, "what was done stays as it was"
    candidates = [e.layout for e in finished if e.purpose == "candidate"]
    assert len(candidates) == len(set(candidates)) == 5, "nothing is run twice"
    numbers = [e.run for e in events if isinstance(e, Proposed)]
    assert len(numbers) == len(set(numbers))
    again = attune(tmp_path, "tune", "--resume", "glm", "--yes")
    assert again.returncode == 0
    assert [e for e in folder.events() if isinstance(e, Finished)] == finished


@pytest.mark.campaign
def test_an_uninterrupted_campaign_chooses_the_same(tmp_path: Path) -> None:
    words = [*SIMULATED, "--trials", "5"]
    assert attune(tmp_path, *words, "--experiment-name", "whole").returncode == 0
    kill_during_run(tmp_path, 3, *words, "--experiment-name", "parts")
    assert attune(tmp_path, "tune", "--resume", "parts", "--yes").returncode == 0
    layouts = [
        [e.layout for e in experiment(tmp_path, n).events() if isinstance(e, Finished)]
        for n in ("whole", "parts")
    ]
    assert layouts[0] == layouts[1]


@pytest.mark.campaign
def test_interrupted_by_the_keyboard(tmp_path: Path) -> None:
    process = subprocess.Popen(
        command(*SIMULATED, "--trials", "5", "--experiment-name", "glm"),
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    for line in process.stdout:
        if line.startswith("run 2 candidate"):
            break
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert "Traceback" not in process.stderr.read()
    assert attune(tmp_path, "tune", "--resume", "glm", "--yes").returncode == 0


@pytest.mark.campaign
def test_the_budget_in_gpu_hours_is_hard(tmp_path: Path) -> None:
    done = attune(
        tmp_path, *SIMULATED, "--trials", "50", "--gpu-hours", "150", "--experiment-name", "glm"
    )
    assert done.returncode == 0, done.stderr
    completed = last(experiment(tmp_path, "glm").events(), Completed)
    assert isinstance(completed, Completed) and completed.gpu_hours <= 150


@pytest.mark.campaign
def test_a_locked_experiment_is_refused(tmp_path: Path) -> None:
    first = subprocess.Popen(
        command(*SIMULATED, "--trials", "30", "--experiment-name", "glm"),
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert first.stdout is not None
        for line in first.stdout:
            if line.startswith("run 1"):
                break
        first.send_signal(signal.SIGSTOP)
        refused = attune(tmp_path, "tune", "--resume", "glm", "--yes")
    finally:
        first.kill()
        first.wait(30)
    assert refused.returncode == 2
    assert "in use by another process" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.campaign
def test_forty_trials_are_quick(tmp_path: Path) -> None:
    began = time.monotonic()
    done = attune(tmp_path, *SIMULATED, "--trials", "40", "--experiment-name", "glm")
    assert done.returncode == 0, done.stderr
    print(f"40 simulated trials: {time.monotonic() - began:.1f} s")
    finished = [e for e in experiment(tmp_path, "glm").events() if isinstance(e, Finished)]
    assert len({json.dumps(e.layout) for e in finished}) >= 5
