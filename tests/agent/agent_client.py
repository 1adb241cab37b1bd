"""The official client over stdio, talking to `attune mcp` in a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class Agent:
    """A scripted agent: calls tools and reads their answers."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def __call__(self, tool: str, **fields: Any) -> dict[str, Any]:
        """The answer of a tool that must succeed."""
        result = await self._client.call_tool(tool, fields)
        assert not result.is_error, result.content[0].text
        answer: dict[str, Any] = result.structured_content
        return answer

    async def refused(self, tool: str, **fields: Any) -> str:
        """The message of a tool that must refuse."""
        result = await self._client.call_tool(tool, fields)
        assert result.is_error, f"{tool} took {fields}: {result.structured_content}"
        text: str = result.content[0].text
        assert "Traceback" not in text
        return text

    async def until_done(self, identifier: str) -> tuple[dict[str, Any], list[str]]:
        """Watches until it ends; the last answer and every line told."""
        told, after = [], 0
        while True:
            answer = await self("watch", id=identifier, after=after, wait_s=30)
            told += answer.get("events", [])
            after = answer.get("next", 0)
            if answer["state"] != "running":
                return answer, told


def play(home: Path, script: Callable[[Agent], Awaitable[None]], *options: str) -> None:
    """Runs a scripted agent against a server with these options."""
    asyncio.run(_play(home, script, options))


async def _play(
    home: Path, script: Callable[[Agent], Awaitable[None]], options: tuple[str, ...]
) -> None:
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "attune.cli", "mcp", *options],
        env={
            "ATTUNE_HOME": str(home),
            "XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"],
            "PYTHONPATH": path,
            "OMP_NUM_THREADS": "1",
        },
        cwd=home,
    )
    async with Client(stdio_client(server)) as client:
        await script(Agent(client))
