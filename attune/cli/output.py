"""Where results go: drawn for a person, or as JSON for a script."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from attune.report.plain import plain

if TYPE_CHECKING:
    from rich.console import Console

Result = TypeVar("Result")


def console() -> Console:
    """The console on standard output; plain where that is no terminal or NO_COLOR is set."""
    from rich.console import Console

    return Console(highlight=False, emoji=False)


def show(result: Result, draw: Callable[[Result, Console], None], as_json: bool) -> None:
    """Draws `result`, or prints it as JSON."""
    if as_json:
        print(json.dumps(plain(result), indent=2, ensure_ascii=False))
    else:
        draw(result, console())
