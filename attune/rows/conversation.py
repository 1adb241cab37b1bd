"""Conversations as they come: checked, made plain, and with typed control tokens broken."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

ROLES = ("system", "developer", "user", "assistant", "tool", "function", "observation", "ipython")
BREAK = "\ufdd0"
"""Stands inside a control token that somebody typed; a noncharacter of Unicode, so no text's."""
GENERATION = ("\ufdd1", "\ufdd2")
"""Enclose what a template marks with `{% generation %}`."""
TOO_DEEP = "nested too deep"
_DEEPEST = 64
"""Levels of lists and mappings; a fixed number, as Python's own limit depends on the caller."""
_RESERVED = re.compile("[\ufdd0-\ufdd2]")
_OPT_OUT = ("step_loss_mask", "weight", "train")
"""Fields of an assistant message that are 0 or false where it is not to be learnt: as slime and
miles, as OpenAI's fine-tuning format, and as Axolotl name it."""


class UnusableError(Exception):
    """This conversation is left out; the argument is the reason, counted in the manifest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """Messages ready for a chat template."""

    messages: list[dict[str, Any]]
    tools: list[Any] | None
    learnt: tuple[bool, ...]
    """For each assistant message, whether it is supervised."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Controls:
    """Control tokens that the authors of messages may not write."""

    model: re.Pattern[str]
    """In messages of the assistant, which do write thinking and tool calls."""
    others: re.Pattern[str]
    """In all other messages and in tools: every added token of the tokenizer."""

    @classmethod
    def of(cls, special: list[str], added: list[str]) -> Controls:
        """From control tokens proper, and all added tokens."""
        return cls(model=alternatives(special), others=alternatives([*special, *added]))


def alternatives(words: list[str]) -> re.Pattern[str]:
    """Any of the words, the longest first; nothing where there are none."""
    longest = sorted(set(words), key=lambda word: (-len(word), word))
    return re.compile("|".join(map(re.escape, longest)) or "(?!)")


def read_conversation(data: Any, column: str, controls: Controls) -> Conversation:
    """The conversation in one record of a source.

    Raises:
        UnusableError: empty, an unknown role, no content, or content that is not text.
    """
    given = _shallow(_json(data.get(column))) if isinstance(data, dict) else None
    if not isinstance(given, list):
        raise UnusableError(f"no list `{column}`")
    if not given:
        raise UnusableError("empty conversation")
    messages = [_message(message) for message in given]
    if not any(message["role"] == "assistant" for message in messages):
        raise UnusableError("no assistant message")
    learnt = tuple(_learnt(m) for m in messages if m["role"] == "assistant")
    return Conversation(
        messages=[_broken(m, _pattern(m, controls)) for m in messages],
        tools=_broken(_tools(data.get("tools")), controls.others),
        learnt=learnt,
    )


def _pattern(message: dict[str, Any], controls: Controls) -> re.Pattern[str]:
    return controls.model if message["role"] == "assistant" else controls.others


def _message(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise UnusableError("a message is no mapping")
    message: dict[str, Any] = _without_nulls(given)
    role = message.get("role")
    if role not in ROLES:
        raise UnusableError("unknown role")
    message["content"] = _content(message.get("content"), _calls_tools(message))
    if "tool_calls" in message:
        message["tool_calls"] = [_call(call) for call in _list(message["tool_calls"])]
    return message


def _calls_tools(message: dict[str, Any]) -> bool:
    return message["role"] == "assistant" and bool(message.get("tool_calls"))


def _without_nulls(value: Any) -> Any:
    """Parquet writes null for each field that another record has; templates ask what is there."""
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _content(content: Any, calls: bool) -> str:
    """Text of a message; parts of text are joined, as chat templates do."""
    if content is None and calls:
        return ""
    if content is None:
        raise UnusableError("message without content")
    if isinstance(content, list):
        content = "".join(map(_part, content))
    if not isinstance(content, str):
        raise UnusableError("content is not text")
    return content


def _part(part: Any) -> str:
    text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else part
    if not isinstance(text, str):
        raise UnusableError("content is not text")
    return text


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise UnusableError("tool calls are no list")
    return value


def _call(call: Any) -> Any:
    """Arguments as a mapping, which templates expect and data sets store as JSON text."""
    if not isinstance(call, dict):
        raise UnusableError("a tool call is no mapping")
    function = call.get("function", call)
    if not isinstance(function, dict):
        raise UnusableError("a tool call is no mapping")
    read = {**function, "arguments": _shallow(_json(function.get("arguments", {})))}
    return {**call, "function": read} if "function" in call else read


def _json(value: Any) -> Any:
    """JSON in a text is read; anything else is left as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _shallow(value: Any) -> Any:
    """`value`, unless lists and mappings stand in one another beyond all use."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [inner for outer in level for inner in _inner(outer)]
        if not level:
            return value
    raise UnusableError(TOO_DEEP)


def _inner(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _tools(value: Any) -> list[Any] | None:
    tools = _without_nulls(_shallow(_json(value)))
    return tools if isinstance(tools, list) and tools else None


def _learnt(message: dict[str, Any]) -> bool:
    return all(bool(message.get(name, True)) for name in _OPT_OUT)


def _broken(value: Any, controls: re.Pattern[str]) -> Any:
    """`value` with a `BREAK` after the first character of each control token in its texts."""
    if isinstance(value, str):
        return _broken_text(value, controls)
    if isinstance(value, list):
        return [_broken(item, controls) for item in value]
    if isinstance(value, dict):
        return {_broken(key, controls): _broken(item, controls) for key, item in value.items()}
    return value


def _broken_text(text: str, controls: re.Pattern[str]) -> str:
    if _RESERVED.search(text):
        raise UnusableError("a noncharacter of Unicode in the text")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UnusableError("not UTF-8") from None
    return controls.sub(lambda found: found[0][0] + BREAK + found[0][1:], text)
