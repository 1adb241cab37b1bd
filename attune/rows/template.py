"""Chat templates, rendered as transformers renders them but in a closed sandbox."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from attune.errors import AttuneError
from attune.rows.conversation import BREAK, GENERATION, Conversation, UnusableError

_NOT_ASCII = re.compile(f"[^\\x00-\\x7f{BREAK}]")


class ChatTemplate:
    """A Jinja template from messages to the text that a model sees."""

    def __init__(self, text: str, tokens: dict[str, str]) -> None:
        """Compiles the template; `tokens` are names it may use, such as `eos_token`.

        Raises:
            AttuneError: not a Jinja template.
        """
        import jinja2

        self.sha256 = hashlib.sha256(text.encode()).hexdigest()
        self.marks_generation = "endgeneration" in text
        self._tokens = tokens
        try:
            self._template = _environment().from_string(text)
        except jinja2.TemplateError as error:
            raise AttuneError(f"the chat template is no Jinja template: {error}") from error

    def render(self, conversation: Conversation) -> str:
        """The conversation as one text.

        There is no clock in it: a template that asks for today's date takes its fixed default.

        Raises:
            UnusableError: the template refuses the conversation.
        """
        # A template is a program from outside; whatever it raises concerns this conversation.
        try:
            text: str = self._template.render(
                messages=conversation.messages,
                tools=conversation.tools,
                add_generation_prompt=False,
                **self._tokens,
            )
            return text
        except Exception as error:
            raise UnusableError(f"template: {_short(error)}") from error


def _short(error: Exception) -> str:
    """One line that groups alike: counts are kept by reason."""
    return (str(error).splitlines() or [""])[0][:80] or type(error).__name__


def _environment() -> Any:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols", _generation_blocks()],
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise
    return environment


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as chat templates expect it, not escaped for HTML as Jinja's own filter does."""
    text = json.dumps(
        value, ensure_ascii=False, indent=indent, separators=separators, sort_keys=sort_keys
    )
    # The break in a typed control token stays as it is, to be taken out later.
    return _NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text) if ensure_ascii else text


def _raise(message: str) -> None:
    raise ValueError(message)


def _generation_blocks() -> type[Any]:
    """Jinja extension: `{% generation %}` leaves marks around what it encloses."""
    from jinja2.ext import Extension
    from jinja2.nodes import Node, Output, TemplateData

    class Generation(Extension):
        tags = {"generation"}  # noqa: RUF012 (Jinja declares it so)

        def parse(self, parser: Any) -> list[Node]:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            before, after = (Output([TemplateData(mark)], lineno=line) for mark in GENERATION)
            return [before, *body, after]

    return Generation
