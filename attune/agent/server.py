"""The MCP server: attune's tools over standard input and output."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from attune.agent.actions import Actions
from attune.agent.limits import Limits
from attune.agent.questions import QUESTIONS
from attune.agent.results import Results
from attune.agent.work import Work
from attune.errors import AttuneError, LayoutError

_INSTRUCTIONS = (
    "attune finds the Megatron layout that trains a model fastest on a cluster, proves it with "
    "short trials and writes a recipe. Begin with `limits` and `describe`, look at `list_layouts`, "
    "then `start_campaign` and `watch` it until it is done; `history` says why, `verify` whether "
    "the winner trains the same model, `export` gives the recipe. Figures carry their provenance: "
    "never call a predicted one measured."
)


def serve(limits: Limits) -> None:
    """Serves until the client hangs up; then ends what still runs.

    Raises:
        AttuneError: the package `mcp` is missing, or the limits do not hold an agent.
    """
    limits.check()
    work = Work(limits)
    server = build_server(limits, work)
    try:
        server.run("stdio")
    finally:
        work.close()


def build_server(limits: Limits, work: Work) -> Any:
    """The server with every tool.

    Raises:
        AttuneError: the package `mcp` is missing.
    """
    try:
        from mcp.server import MCPServer
    except ImportError as error:
        raise AttuneError("`attune mcp` needs its extra: pip install 'attune[agent]'") from error
    from attune import __version__

    server = MCPServer(
        "attune", instructions=_INSTRUCTIONS, version=__version__, log_level="WARNING"
    )
    for tool in (*QUESTIONS, *Actions(limits, work).tools, *Results(work).tools):
        server.add_tool(_told(tool))
    return server


def _told(tool: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """`tool` with its errors as messages that the agent reads."""
    from mcp.server.mcpserver.exceptions import ToolError

    @functools.wraps(tool)
    def told(*args: Any, **fields: Any) -> dict[str, Any]:
        try:
            return tool(*args, **fields)
        except (AttuneError, LayoutError) as error:
            raise ToolError(str(error)) from error
        except OSError as error:
            raise ToolError(f"{error.filename or 'a file'}: {error.strerror or error}") from error

    return told
