"""A console of fixed width that keeps what it is given."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

Drawn = Callable[..., str]


@pytest.fixture
def drawn() -> Drawn:
    """Text that `draw(result, console)` gives on a plain console of 80 columns."""

    def draw_to_text(draw: Callable[[Any, Console], object], result: Any, width: int = 80) -> str:
        stream = io.StringIO()
        draw(result, Console(file=stream, width=width, highlight=False, force_terminal=False))
        return stream.getvalue()

    return draw_to_text
