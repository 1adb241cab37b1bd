"""What a recipe, a script or a command line sets: flags, variables and files, never run."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from attune.errors import AttuneError

LARGEST_BYTES = 2**20
_ASSIGNED = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)=(.*)", re.DOTALL)
_ARRAY = re.compile(r"^[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)=\((.*?)\)[ \t]*$", re.M | re.S)
_HEREDOC = re.compile(r"^[^\n]*<<-?\s*['\"]?(\w+)['\"]?[^\n]*\n(.*?)^\1\s*$", re.M | re.S)
_FIELD = re.compile(r"\+{0,2}([a-z_]+(?:\.[A-Za-z_]\w*)+)=(.*)", re.DOTALL)
_EXPANDED = re.compile(r"\$\{?(\w+)(?:\[[@*]\])?\}?")
_ENDS = frozenset({";", "&&", "||", "|", "&"})
_CARRIERS = ("train-env-vars", "runtime-env-json")
"""Flags whose JSON holds environment variables."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """The settings of one arm."""

    flags: dict[str, str] = field(default_factory=dict)
    """By name without dashes; the last one given counts, as argparse reads them."""
    variables: dict[str, str] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)
    """Of a configuration file in the script, or `section.field=value` words, by dotted path."""
    framework: str | None = None


def read_command(source: str) -> Command:
    """The settings in `source`: the path of a recipe or script, or a command line itself.

    Raises:
        AttuneError: the file is too large or empty, or has quotes that do not close.
    """
    path = Path(source)
    if "\n" in source or len(source) > 4096 or not path.is_file():
        if " " not in source.strip():
            raise AttuneError(f"no file `{source}`; give a recipe, a script or a command line")
        return parse_command(source)
    if path.stat().st_size > LARGEST_BYTES:
        raise AttuneError(f"{source} is over {LARGEST_BYTES} bytes; give a recipe or a script")
    text = path.read_text(encoding="utf-8", errors="replace")
    if not text.strip():
        raise AttuneError(f"{source} is empty; give a recipe, a script or a command line")
    return _of_recipe(text) or parse_command(text)


def _of_recipe(text: str) -> Command | None:
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError:
        return None
    if not isinstance(data, dict) or not isinstance(data.get("run"), str):
        return None
    variables, stack = _mapping(data, "env"), _mapping(data, "stack")
    words = str(stack.get("framework", "")).lower()
    known = [name for name in ("miles", "slime", "megatron-bridge") if name in words]
    own = {str(name): str(value) for name, value in variables.items()}
    return parse_command(data["run"], variables=own, framework=known[0] if known else None)


def _mapping(data: dict[str, Any], name: str) -> dict[str, Any]:
    value = data.get(name)
    return value if isinstance(value, dict) else {}


def parse_command(
    text: str, *, variables: Mapping[str, str] | None = None, framework: str | None = None
) -> Command:
    """The settings of a script's text.

    Raises:
        AttuneError: a quote does not close.
    """
    fields: dict[str, str] = {}
    for heredoc in _HEREDOC.finditer(text):
        fields |= _flat(heredoc[2])
    text = _HEREDOC.sub("", text).replace("\\\n", " ")
    arrays = {found[1]: found[2] for found in _ARRAY.finditer(text)}
    text = _ARRAY.sub("", text)
    command = Command(variables=dict(variables or {}), fields=fields, framework=framework)
    words = [word for line in text.splitlines() for word in [*_words(line), ";"]]
    _read_words(_expanded(words, arrays), command)
    return command


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError as error:
        raise AttuneError(f"a quote does not close in `{line.strip()[:80]}`: {error}") from error


def _expanded(words: list[str], arrays: dict[str, str], depth: int = 0) -> Iterator[str]:
    for word in words:
        found = _EXPANDED.fullmatch(word)
        if found and found[1] in arrays and depth < 8:
            inner = [part for line in arrays[found[1]].splitlines() for part in _words(line)]
            yield from _expanded(inner, arrays, depth + 1)
        elif found and "[" in word:
            # An array that is filled elsewhere: it must at least have the same name.
            yield from ("--" + word, word)
        else:
            yield word


def _read_words(words: Iterator[str], command: Command) -> None:
    name, values, at_start = None, [], True
    for word in words:
        is_flag, is_field = re.match(r"--[A-Za-z$]", word), _FIELD.fullmatch(word)
        if name is not None and (is_flag or is_field or word in _ENDS):
            _put(command, name, " ".join(values))
            name, values = None, []
        if word in _ENDS:
            at_start = True
        elif is_field:
            command.fields[is_field[1]] = is_field[2]
        elif is_flag:
            name, has_value, value = word[2:].partition("=")
            values = [value] if has_value else []
        elif name is not None:
            values.append(word)
        elif at_start and (assigned := _ASSIGNED.fullmatch(word)):
            command.variables[assigned[1]] = assigned[2]
        elif word in ("source", "."):
            name = "source"
        elif word not in ("export", "env", "exec"):
            at_start = False


def _put(command: Command, name: str, value: str) -> None:
    if name in _CARRIERS:
        carried = _json(value)
        carried = carried.get("env_vars", carried) if isinstance(carried, dict) else {}
        command.variables.update({str(k): str(v) for k, v in carried.items()})
        return
    command.flags[name] = value


def worker_file(script: str) -> str | None:
    """The JSON of attune's own trainer in a script; None where there is none."""
    for heredoc in _HEREDOC.finditer(script):
        fields = _json(heredoc[2])
        if isinstance(fields, dict) and {"model", "workload", "layout"} <= fields.keys():
            return heredoc[2]
    return None


def _flat(text: str) -> dict[str, str]:
    """The fields of a JSON document, by dotted path; none where it is no JSON."""

    def walk(value: Any, path: str) -> Iterator[tuple[str, str]]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from walk(inner, f"{path}.{key}" if path else str(key))
        else:
            yield path, json.dumps(value)

    return dict(walk(_json(text), "worker"))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {}
