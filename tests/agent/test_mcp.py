"""The agent door over stdio: questions, a campaign on a virtual cluster, limits, bad input."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml
from agent_client import Agent, play

from attune.experiment import Experiment
from attune.experiment.events import Completed
from attune.experiment.requests import is_running

pytest.importorskip("mcp")

SMALL = {"model": "tiny-moe", "gpu": "cpu", "count": 4}


def test_an_agent_tunes_from_start_to_recipe(tmp_path: Path):
    async def script(agent: Agent) -> None:
        assert (await agent("limits"))["launcher"] == "simulated"
        about = await agent("describe", **SMALL)
        assert about["model"]["id"] == "tiny-moe" and about["cluster"]["count"] == 4
        layouts = await agent("list_layouts", **SMALL, best=3)
        first = layouts["best"][0]["layout"]
        assert (await agent("explain_layout", **SMALL, layout=first))["broken"] == []
        told = await agent("estimate", **SMALL, layouts=[first])
        assert told["provenance"] == "predicted" and told["estimates"][0]["step_s"] > 0
        started = await agent("start_campaign", **SMALL, name="first", trials=2)
        last, lines = await agent.until_done(started["id"])
        assert last["state"] == "done" and any("winner" in line for line in lines)
        history = await agent("history", experiment="first")
        assert history["runs"][0]["purpose"] == "reference" and "findings" in history["runs"][0]
        assert history["completed"]["winner"]
        checked = await agent("verify", experiment="first")
        assert checked["checks"] and not checked["verified"], "a virtual cluster verifies nothing"
        exported = await agent("export", experiment="first", file="best.yaml")
        assert yaml.safe_load(exported["recipe"])["attune"]["layout"]
        assert Path(exported["path"]).parent == tmp_path / "exported"

    play(tmp_path, script)


def test_bad_calls_are_refused_in_words(tmp_path: Path):
    async def script(agent: Agent) -> None:
        assert "no experiment" in await agent.refused("history", experiment="nothing")
        assert "no experiment" in await agent.refused("watch", id="nothing")
        assert "no trial" in await agent.refused("watch", id="trial-0007")
        assert "not a path" in await agent.refused("verify", experiment="../elsewhere")
        assert "not a path" in await agent.refused("describe", model="/etc/x", gpu="h200", count=8)
        assert "count" in await agent.refused("describe", model="glm-4.5", gpu="h200")
        assert "count" in await agent.refused("describe", model="glm-4.5", gpu="h200", count="many")
        wrong = await agent.refused("explain_layout", **SMALL, layout="tq=2")
        assert "no field `tq`" in wrong
        assert "cannot run" in await agent.refused("estimate", **SMALL, layouts=["tp=3"])
        assert "cannot run" in await agent.refused("start_trial", **SMALL, layout="tp=3")
        assert "plain name" in await agent.refused("export", experiment="x", file="../../x.yaml")
        assert await agent.refused("start_campaign", **SMALL, name="../outside")
        assert await agent.refused("run_shell", command="true")
        assert not (await agent("list_experiments"))["experiments"]

    play(tmp_path, script)
    assert not (tmp_path.parent / "outside").exists()


def test_the_budget_holds_whoever_asks(tmp_path: Path):
    async def script(agent: Agent) -> None:
        assert "left of --max" in await agent.refused(
            "start_campaign", **SMALL, name="dear", gpu_hours=3.0
        )
        assert "left of --max" in await agent.refused(
            "start_trial", **SMALL, layout="tp=2", limit_s=86400
        )
        started = await agent("start_trial", **SMALL, layout="tp=2", limit_s=600)
        last, _ = await agent.until_done(started["id"])
        assert last["outcome"] == "completed" and last["provenance"] == "predicted"
        left = (await agent("limits"))["gpu_hours_left"]
        assert 0 < left < 2.0, "the trial cost something"
        assert not (await agent("list_experiments"))["experiments"]

    play(tmp_path, script, "--max-gpu-hours", "2")

    async def later(agent: Agent) -> None:
        assert (await agent("limits"))["gpu_hours_left"] < 2.0, "another server counts it too"

    play(tmp_path, later, "--max-gpu-hours", "2")


def test_one_thing_runs_at_a_time_and_can_be_cancelled_and_resumed(tmp_path: Path):
    large = {"model": "glm-4.5", "gpu": "h200", "count": 128}

    async def script(agent: Agent) -> None:
        started = await agent("start_campaign", **large, name="long", trials=100)
        assert "still running" in await agent.refused("start_campaign", **large, name="other")
        assert "still running" in await agent.refused("start_trial", **SMALL, layout="tp=2")
        await agent("cancel", id=started["id"])
        last, _ = await agent.until_done("long")
        assert last["state"] == "unfinished"
        assert "not running" in await agent.refused("cancel", id="long")
        assert (await agent("resume_campaign", experiment="long"))["state"] == "running"

    play(tmp_path, script)
    # The client hung up: the server ends what it had started.
    long, end = Experiment(tmp_path / "experiments/long"), time.monotonic() + 300
    while is_running(long):
        assert time.monotonic() < end, "left running"
        time.sleep(0.2)
    assert not [e for e in long.events() if isinstance(e, Completed)]
