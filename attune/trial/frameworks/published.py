"""The `run:` block of a recipe: exports and a command, as a person would type them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from attune.trial.frameworks.command_line import quoted


def run_block(
    environment: Mapping[str, str],
    before: Sequence[str],
    program: str,
    arguments: Sequence[str],
) -> str:
    """Exports, the lines of `before`, and the command with one flag a line."""
    exports = [f"export {name}={_value(value)}" for name, value in environment.items()]
    lines = [program + "".join(f" {quoted(word)}" for word in _leading(arguments))]
    lines += [" ".join([flag, *map(quoted, values)]) for flag, values in _flags(arguments)]
    return "\n".join([*exports, "", *before, " \\\n  ".join(lines)]) + "\n"


def _value(text: str) -> str:
    """A command substitution of the user's, such as `$(...)`, stays one."""
    return text if re.fullmatch(r"\$\(.*\)", text, re.DOTALL) else quoted(text)


def _leading(arguments: Sequence[str]) -> list[str]:
    """Words before the first flag: the script."""
    place = next((i for i, word in enumerate(arguments) if word.startswith("--")), len(arguments))
    return list(arguments[:place])


def _flags(arguments: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each flag with its values; an array of flags stands for itself."""
    name, values = "", []
    for word in [*arguments[len(_leading(arguments)) :], "--"]:
        array = bool(re.fullmatch(r"\$\{\w+\[@\]\}", word))
        if not word.startswith("--") and not array:
            values.append(word)
            continue
        if name:
            yield name, values
        name, values = quoted(word) if array else word, []
