from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from attune.cli.app import run
from attune.cli.consent import ask
from attune.errors import AttuneError
from attune.experiment import experiments_folder
from attune.experiment.events import Completed, Started

TINY = ("tune", "--model", "tiny-moe", "--gpu", "cpu", "--count", "4")


def test_real_runs_are_refused_without_terminal_or_yes(attune):
    answer = attune(*TINY, "--launcher", "local", "--trials", "6")
    assert answer.code == 2 and "--yes" in answer.err
    assert "6 trials of 20 steps" in answer.err and "4 CPU" in answer.err
    assert not experiments_folder().exists()


def test_dry_run_writes_nothing(attune):
    answer = attune(*TINY, "--launcher", "simulated", "--dry-run")
    assert answer.code == 0 and "nothing ran, nothing was written" in answer.out
    assert "predicted to fit" in answer.out and "launcher simulated" in answer.out
    assert not experiments_folder().exists()


def test_wrong_virtual_cluster_is_wrong_usage(attune):
    answer = attune(*TINY, "--launcher", "simulated", "--virtual", "close")
    assert answer.code == 2 and "near" in answer.err


@pytest.mark.parametrize("hours", ["nan", "0", "-1", "inf"])
def test_a_budget_that_is_no_budget_is_named(attune, hours):
    answer = attune(*TINY, "--launcher", "simulated", "--yes", "--gpu-hours", hours)
    assert answer.code == 2 and "`gpu_hours`" in answer.err
    assert not experiments_folder().exists()


def campaign_of(*events, spends: bool = False):
    def tell() -> Iterator[object]:
        yield from events

    inputs = SimpleNamespace(experiment="exp-1", project=None)
    return SimpleNamespace(
        inputs=inputs, experiment="exp-1", spends=spends, resumed=False, events=tell
    )


STARTED = Started(
    experiment="exp-1",
    model="GLM-4.5",
    gpu="H200",
    count=128,
    launcher="simulated",
    launcher_reason="no H200 here",
    provenance="predicted",
    workload="8192 x 128",
    trials=1,
    gpu_hours=None,
    seed=0,
)
COMPLETED = Completed(
    winner="tp=4 pp=16",
    winner_run=1,
    tokens_per_s_per_gpu=200.0,
    step_time_s=40.0,
    peak_gib=100.0,
    usd_per_million_tokens=11.0,
    mfu=0.04,
    status="predicted",
    gains=(),
    recipe="recipe.yaml",
    gpu_hours=1.0,
)


@pytest.mark.parametrize(("problem", "code"), [("", 0), ("layout_bound failed", 1)])
def test_exit_code_follows_the_verdict(attune, monkeypatch, problem, code):
    ended = COMPLETED.model_copy(update={"problem": problem})
    monkeypatch.setattr("attune.verbs.tune.tune", lambda _: campaign_of(STARTED, ended))
    answer = attune(*TINY)
    assert answer.code == code
    lines = answer.out.splitlines()
    assert lines[0].startswith("SIMULATED") and lines[-1].startswith("SIMULATED")


def test_interrupted_campaign_is_exit_code_130(attune, monkeypatch):
    def interrupted() -> Iterator[object]:
        yield STARTED
        raise KeyboardInterrupt

    found = campaign_of()
    found.events = interrupted
    monkeypatch.setattr("attune.verbs.tune.tune", lambda _: found)
    answer = attune(*TINY)
    assert answer.code == 130
    told = ["go on with: attune tune --resume exp-1", "attune: interrupted"]
    assert answer.err.splitlines() == told


def test_answer_no_runs_nothing(monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: False)
    with pytest.raises(AttuneError, match="nothing was run"):
        ask("Run it?")


def test_yes_at_the_terminal_goes_on(monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: True)
    ask("Run it?")


def test_run_is_callable_without_arguments_given(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["attune", "--version"])
    assert run() == 0
    assert capsys.readouterr().out.startswith("attune ")


def test_events_as_lines_of_json(attune, monkeypatch):
    monkeypatch.setattr("attune.verbs.tune.tune", lambda request: campaign_of(STARTED, COMPLETED))
    answer = attune(*TINY, "--launcher", "simulated", "--json")
    assert answer.code == 0, answer.err
    told = [json.loads(line) for line in answer.out.splitlines()]
    assert [event["kind"] for event in told] == ["started", "completed"]
    assert told[0]["experiment"] == "exp-1"
