"""Changes fields of a recipe that a person wrote, and leaves all else as it stands."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from attune.errors import AttuneError
from attune.recipe.files import parse_text


def edit_text(text: str, changes: Mapping[str, Any], source: str = "recipe") -> str:
    """The recipe's YAML with each dotted field set; comments, order and blocks stay.

    Args:
        text: the recipe as a person wrote it.
        changes: `{"result.mfu": 0.11}`; a mapping on the way that is missing is made.
        source: name of the file in messages.

    Raises:
        AttuneError: not a recipe's YAML, or a field lies within a value that is no mapping.
    """
    parse_text(text, source)
    editor = _editor()
    data = editor.load(text)
    if not isinstance(data, dict):
        raise AttuneError(f"{source} holds no mapping; a recipe is one")
    for field, value in changes.items():
        _set(data, field, value)
    written = io.StringIO()
    editor.dump(data, written)
    return written.getvalue()


class _AsWritten(str):
    """A number or a day as the file says it, whose digits must not change."""

    def __new__(cls, text: str, tag: object) -> _AsWritten:
        value = super().__new__(cls, text)
        value.tag = tag
        return value

    tag: object


def _editor() -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import RoundTripConstructor
    from ruamel.yaml.representer import RoundTripRepresenter

    class Constructor(RoundTripConstructor):
        """Numbers and days stay the text that they are."""

    class Representer(RoundTripRepresenter):
        """Writes them as they were."""

    for kind in ("int", "float", "timestamp"):
        Constructor.add_constructor(
            f"tag:yaml.org,2002:{kind}", lambda _, node: _AsWritten(node.value, node.tag)
        )
    Representer.add_representer(
        _AsWritten, lambda writer, value: writer.represent_scalar(value.tag, str(value))
    )
    editor = YAML(typ="rt")
    editor.Constructor, editor.Representer = Constructor, Representer
    editor.preserve_quotes = True
    editor.width = 116
    editor.indent(mapping=2, sequence=2, offset=0)
    return editor


def _set(data: Any, field: str, value: Any) -> None:
    *way, last = field.split(".")
    inner = data
    for name in way:
        if inner.get(name) is None:
            inner[name] = {}
        inner = inner[name]
        if not isinstance(inner, dict):
            raise AttuneError(f"`{name}` of `{field}` is {inner!r}, which holds no fields")
    inner[last] = value
