"""Reads and writes recipe files; whatever a file says, reading it runs nothing."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from attune.catalog import parse
from attune.catalog.yaml_file import SafeLoader, read_text
from attune.errors import AttuneError
from attune.recipe.schema import Recipe, unknown_fields

_MAXIMUM_DEPTH = 24
_WIDTH = 116
"""With this width PyYAML folds long lines where the published recipe pages fold them."""


def load_recipe(path: Path | str) -> Recipe:
    """The recipe of a YAML file; fields that the schema does not know are kept, with a warning.

    Raises:
        AttuneError: no such file, over 1 MB, not YAML, not a mapping, anchors, tags, a key given
            twice, or fields that the schema refuses.
    """
    recipe = parse(Recipe, read_data(path), str(path))
    unknown = unknown_fields(recipe)
    if unknown:
        names = ", ".join(name if name.isprintable() else repr(name) for name in unknown)
        warnings.warn(f"{path}: unknown fields kept: {names}", stacklevel=2)
    return recipe


def read_data(path: Path | str) -> Any:
    """The plain data of a recipe file, not yet judged.

    Raises:
        AttuneError: as `load_recipe`, but for the schema.
    """
    return parse_text(read_text(Path(path)), str(path))


def parse_text(text: str, source: str = "recipe") -> Any:
    """The plain data of a recipe's YAML text.

    Raises:
        AttuneError: not YAML, or YAML with anchors, tags, deep nesting or a key given twice.
    """
    try:
        _refuse_surprises(yaml.parse(text, Loader=yaml.SafeLoader), source)
        return yaml.load(text, Loader=SafeLoader)
    except (yaml.YAMLError, ValueError) as error:
        place = " ".join(str(error).split())
        raise AttuneError(f"{source} is not valid YAML: {place}; mend the file") from error


def _refuse_surprises(events: Iterator[yaml.Event], source: str) -> None:
    """A recipe needs no anchors, which can grow without bound, and no tags."""
    depth = 0
    for event in events:
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        word = _surprise(event, depth)
        if word:
            line = event.start_mark.line + 1 if event.start_mark else 0
            raise AttuneError(f"{source}, line {line}: a recipe has no {word}; write it out")


def _surprise(event: yaml.Event, depth: int) -> str | None:
    anchor, tag = getattr(event, "anchor", None), getattr(event, "tag", None)
    if depth > _MAXIMUM_DEPTH:
        return f"values nested over {_MAXIMUM_DEPTH} deep"
    if anchor is not None:
        return f"anchors or aliases, but got `{anchor}`"
    if tag not in (None, "!"):
        return f"tags, but got `{tag}`"
    return None


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def dump_recipe(recipe: Recipe) -> str:
    """YAML text of a recipe in the schema's field order; only the fields that were given.

    Reading it back gives an equal recipe. Text of several lines becomes a block.
    """
    data = recipe.model_dump(exclude_unset=True)
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=_WIDTH, allow_unicode=True)
