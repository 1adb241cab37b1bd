"""Messages that echo what was typed, without its length."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from typer.core import TyperGroup

_LONG_WORD = re.compile(r"\S{201,}")
_HEAD, _TAIL = 60, 30


def short_words(message: str) -> str:
    """The message with the middle of every word of more than 200 characters left out."""
    return _LONG_WORD.sub(lambda word: f"{word[0][:_HEAD]}...{word[0][-_TAIL:]}", message)


class ShortUsage(TyperGroup):
    """The commands; an error in their usage echoes a long argument shortened."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with _short_usage():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        with _short_usage():
            return super().invoke(ctx)


@contextmanager
def _short_usage() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # Known by its field, since typer's own copy of click is no public name.
        if hasattr(error, "format_message"):
            error.message = short_words(str(getattr(error, "message", "")))  # type: ignore[attr-defined]
        raise
