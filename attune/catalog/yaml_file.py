"""Reads a small YAML file, and checks what it holds against a schema."""

from __future__ import annotations

import reprlib
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from attune.catalog.names import nearest
from attune.errors import AttuneError

_MAXIMUM_BYTES = 1_000_000
_MAXIMUM_PROBLEMS = 8

Entry = TypeVar("Entry", bound=BaseModel)


class SafeLoader(yaml.SafeLoader):
    """Safe loading that refuses a key given twice: one of the two would be lost."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise yaml.MarkedYAMLError(
                problem=f"`{twice}` is given twice", problem_mark=node.start_mark
            )
        return super().construct_mapping(node, deep)


def read_text(path: Path) -> str:
    """Content of a small text file; never more than a bounded part is read.

    Raises:
        AttuneError: no such file, too large, not UTF-8.
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(_MAXIMUM_BYTES + 1)
        if len(content) > _MAXIMUM_BYTES:
            raise AttuneError(f"{path} is over {_MAXIMUM_BYTES} bytes; is it the right file?")
        return content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AttuneError(f"cannot read {path}: {error}; check the path") from error


def read_yaml(path: Path) -> Any:
    """Safely loaded content of a small YAML file.

    Raises:
        AttuneError: no such file, too large, not YAML, a key given twice.
    """
    text = read_text(path)
    try:
        return yaml.load(text, Loader=SafeLoader)
    # An impossible date is a ValueError; deep nesting exhausts the stack.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        place = " ".join(str(error).split())
        raise AttuneError(f"{path} is not valid YAML: {place}; mend the file") from error


def parse(kind: type[Entry], data: Any, source: str) -> Entry:
    """`data` as a `kind`; every wrong field is named with the value got.

    Raises:
        AttuneError: `data` is not a mapping, or has unknown, missing or wrong fields.
    """
    if not isinstance(data, dict):
        raise AttuneError(f"{source} must be a mapping of fields, but got {type(data).__name__}")
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise AttuneError(f"{source}: {_explain(error, kind)}") from error


def _explain(error: ValidationError, kind: type[BaseModel]) -> str:
    problems = error.errors(include_url=False)
    parts = [_problem(item, kind) for item in problems[:_MAXIMUM_PROBLEMS]]
    if len(problems) > _MAXIMUM_PROBLEMS:
        parts.append(f"and {len(problems) - _MAXIMUM_PROBLEMS} more")
    return "; ".join(parts)


def _problem(item: ErrorDetails, kind: type[BaseModel]) -> str:
    field = ".".join(str(step) for step in item["loc"])
    if item["type"] == "extra_forbidden":
        near = nearest(str(item["loc"][-1]), list(_part(kind, item["loc"][:-1]).model_fields))
        return f"unknown field `{field}`" + (f"; did you mean `{near}`?" if near else "")
    if item["type"] == "missing":
        return f"field `{field}` is missing"
    if item["type"] == "value_error":  # our own words, with the values in them
        words = item["msg"].removeprefix("Value error, ")
        return f"{field}: {words}" if field else words
    value = item["input"]
    got = f"a {type(value).__name__}" if isinstance(value, dict | list) else reprlib.repr(value)
    return f"field `{field}`: {item['msg']}, but got {got}"


def _part(kind: type[BaseModel], place: tuple[int | str, ...]) -> type[BaseModel]:
    """The model class at `place` within `kind`, as far as the annotations tell."""
    for step in place:
        field = kind.model_fields.get(str(step))
        inner = _classes(field.annotation) if field else []
        kind = next((x for x in inner if issubclass(x, BaseModel)), kind)
    return kind


def _classes(annotation: Any) -> list[type]:
    arguments = get_args(annotation)
    if arguments:
        return [found for argument in arguments for found in _classes(argument)]
    return [annotation] if isinstance(annotation, type) else []
