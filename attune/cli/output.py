"""Where results go: drawn for a person, or as JSON for a script."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from attune.report.plain import plain

if TYPE_CHECKING:
    from rich.console import Console

Result = TypeVar("Result")
_CONTROLS = re.compile(r"[\x7f-\x9f]")
"""What `json.dumps` leaves as it is, and a terminal may obey: DEL and C1."""


def console() -> Console:
    """The console on standard output; plain where that is no terminal or NO_COLOR is set."""
    from rich.console import Console

    return Console(highlight=False, emoji=False)


def json_text(result: object, indent: int | None = None) -> str:
    """`result` as JSON, in which a terminal finds nothing to obey either."""
    text = json.dumps(plain(result), indent=indent, ensure_ascii=False)
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def show(result: Result, draw: Callable[[Result, Console], None], as_json: bool) -> None:
    """Draws `result`, or prints it as JSON."""
    if as_json:
        print(json_text(result, indent=2))
    else:
        draw(result, console())
