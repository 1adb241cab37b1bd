"""A scripted agent tunes with real training on this machine's processors."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_client import Agent, play

from attune.recipe import check_recipe, load_recipe

pytestmark = pytest.mark.campaign


def test_an_agent_reaches_a_verified_recipe(tmp_path: Path):
    small = {"model": "tiny-moe", "gpu": "cpu", "count": 4}

    async def script(agent: Agent) -> None:
        assert (await agent("list_layouts", **small, best=2))["best"]
        started = await agent("start_campaign", **small, name="tiny", trials=2, steps=8)
        last, lines = await agent.until_done(started["id"])
        assert last["state"] == "done", "\n".join([*lines, last.get("log", "")])
        checked = await agent("verify", experiment="tiny")
        assert checked["verified"] and not checked["recipe_problems"], checked
        await agent("export", experiment="tiny", file="tiny.yaml")
        assert (await agent("limits"))["gpu_hours_left"] < 4.0

    play(tmp_path, script, "--launcher", "local", "--max-gpu-hours", "4")
    recipe = load_recipe(tmp_path / "exported" / "tiny.yaml")
    assert recipe.status == "verified" and check_recipe(recipe) == []
