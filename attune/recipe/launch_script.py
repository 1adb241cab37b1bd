"""Reads a launch script or command line of a trainer as data; nothing of it is ever run."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from attune.errors import AttuneError

_PROGRAM = re.compile(r"(?:^|/)(pretrain_\w+|train|train_async|finetune_\w+|run_recipe)\.py$")
_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)(?:\[[@*]\])?(?::?-([^}]*))?\}?")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_LARGEST = 1 << 20
_DEEPEST = 4

Value = str | tuple[str, ...] | bool


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchScript:
    """What a script would start."""

    program: str
    """The trainer's file, such as `pretrain_gpt.py`."""
    flags: Mapping[str, Value]
    """Flags of the trainer; True for one without a value, the last one given counts."""
    launcher_flags: Mapping[str, Value]
    """Flags before the trainer: torchrun's, srun's, or Ray's."""
    environment: Mapping[str, str]
    """Exported variables, and those of Ray's runtime environment."""
    unread: tuple[str, ...] = ()
    """Words of variables that the script does not set, such as `${MODEL_ARGS[@]}`."""


def read_launch_script(text: str, source: str = "script") -> LaunchScript:
    """The trainer's command in `text`, with the script's own variables and arrays filled in.

    Raises:
        AttuneError: over 1 MiB, or no line starts a trainer that attune knows.
    """
    if len(text) > _LARGEST:
        raise AttuneError(f"{source} has {len(text):,} characters; a launch script has under 1 MiB")
    reader = _Reader()
    command = next((c for line in _lines(text) if (c := reader.command(line))), None)
    if command is None:
        raise AttuneError(
            f"{source} starts no trainer that attune knows (pretrain_*.py, train.py, "
            "train_async.py, run_recipe.py); give the script whose command runs one"
        )
    before, program, after = command
    return LaunchScript(
        program=program,
        flags=read_flags(after),
        launcher_flags=read_flags(before),
        environment=reader.environment | _runtime_environment(read_flags(before)),
        unread=tuple(word for word in after if not _is_known(word)),
    )


def command_flags(text: str) -> dict[str, Value]:
    """Flags of the trainer that a recipe's `run:` starts; empty where it starts none."""
    try:
        return dict(read_launch_script(text).flags)
    except AttuneError:
        return {}


def read_flags(words: list[str]) -> dict[str, Value]:
    """`--flag value`, `--flag=value`, `--flag a b` and bare flags, each by its last use."""
    flags: dict[str, Value] = {}
    name, values = "", []
    for word in [*filter(_is_known, words), "--"]:
        if not re.match(r"--?[A-Za-z]|--$", word):
            values.append(word)
            continue
        if name:
            flags[name] = _value(values)
        name, sign, value = word.partition("=")
        values = [value] if sign else []
    return flags


def _is_known(word: str) -> bool:
    """Whether a word is no array that something outside the script fills."""
    return not re.fullmatch(r"\$\{\w+\[[@*]\]\}", word)


def _value(values: list[str]) -> Value:
    if len(values) > 1:
        return tuple(values)
    return values[0] if values else True


def _lines(text: str) -> Iterator[str]:
    """Whole commands: joined where a line goes on by a backslash, an array, or an open quote."""
    kept = ""
    for line in text.replace("\r\n", "\n").split("\n"):
        bare = re.sub(r"(?:^|\s)#.*", "", line) if kept and not _is_open(kept) else line
        kept = f"{kept}\n{bare}" if kept else bare
        if kept.rstrip().endswith("\\"):
            kept = kept.rstrip()[:-1] + " "
            continue
        if len(kept) < _LARGEST and (_is_open(kept) or _in_array(kept)):
            continue
        yield kept
        kept = ""
    if kept:
        yield kept


def _is_open(text: str) -> bool:
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    return False


def _in_array(text: str) -> bool:
    opened = re.match(r"\s*(?:export\s+|declare\s+-a\s+)?[A-Za-z_]\w*\+?=\(", text)
    return bool(opened) and not re.search(r"\)\s*(?:#.*)?$", text)


@dataclass(kw_only=True)
class _Reader:
    """Variables seen so far."""

    variables: dict[str, list[str]] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    def command(self, line: str, depth: int = 0) -> tuple[list[str], str, list[str]] | None:
        """Words before the trainer, the trainer, words after it; None for any other line."""
        if self._assigns_array(line) or self._assigns_output(line):
            return None
        try:
            words = self._assign(shlex.split(line, comments=True))
        except ValueError:
            return None
        words = [part for word in words for part in self._filled(word)]
        for place, word in enumerate(words):
            if found := _PROGRAM.search(word):
                return words[:place], f"{found[1]}.py", _until_end(words[place + 1 :])
            if " " in word and ".py" in word and depth < _DEEPEST:
                inner = self.command(word, depth + 1)
                if inner:
                    return words[:place] + inner[0], *inner[1:]
        return None

    def _assigns_array(self, line: str) -> bool:
        array = r"\s*(?:export\s+|declare\s+-a\s+)?([A-Za-z_]\w*)(\+?)=\((.*)\)\s*(?:#.*)?"
        found = re.fullmatch(array, line, re.DOTALL)
        if found is None:
            return False
        try:
            words = shlex.split(found[3], comments=True)
        except ValueError:
            return False
        filled = [part for word in words for part in self._filled(word)]
        self.variables[found[1]] = (self.variables.get(found[1], []) if found[2] else []) + filled
        return True

    def _assigns_output(self, line: str) -> bool:
        """`export NAME=$(command)`: kept as text, as its value is known only where it runs."""
        found = re.fullmatch(r"\s*export\s+(\w+)=(.*\$\(.*\).*)", line)
        if found:
            self.environment[found[1]] = found[2].strip().strip('"')
        return bool(found)

    def _assign(self, words: list[str]) -> list[str]:
        """Take assignments at the start of a command; what follows them is given back."""
        exported = words[:1] == ["export"]
        rest = words[1:] if exported else words
        while rest and (found := _ASSIGNMENT.fullmatch(rest[0])):
            name, more, text = found.groups()
            value = " ".join(self._filled(text)) if text else ""
            old = " ".join(self.variables.get(name, [])) if more else ""
            # A text of several words is split again where it is used without quotes.
            self.variables[name] = (old + value).split() or [""]
            if exported:
                self.environment[name] = old + value
            rest = rest[1:]
        return [] if exported else rest

    def _filled(self, word: str) -> list[str]:
        """The word with variables that are known filled in; those that are not stay."""
        whole = _VARIABLE.fullmatch(word)
        if whole and whole[1] in self.variables:
            return self.variables[whole[1]]

        def fill(found: re.Match[str]) -> str:
            if found[1] in self.variables:
                return " ".join(self.variables[found[1]])
            return found[0] if found[2] is None else found[2]

        return [_VARIABLE.sub(fill, word)]


def _until_end(words: list[str]) -> list[str]:
    """Words of this command alone: a pipe, a redirection or the next command ends it."""
    for place, word in enumerate(words):
        if re.match(r"(\d?>|\||&|;)", word):
            return words[:place]
    return words


def _runtime_environment(flags: Mapping[str, Value]) -> dict[str, str]:
    text = flags.get("--runtime-env-json")
    try:
        data = json.loads(text) if isinstance(text, str) else {}
    except ValueError:
        return {}
    found = data.get("env_vars", {}) if isinstance(data, dict) else {}
    return {str(name): str(value) for name, value in found.items()} if found else {}
