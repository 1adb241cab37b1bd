"""A log that the user's own regular expressions read, for a trainer that attune does not know."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from attune.errors import AttuneError
from attune.trial.job import Job
from attune.trial.result import RankMemory, Step
from attune.trial.stand_in.voices_megatron import MegatronVoice

if TYPE_CHECKING:
    from attune.trial.stand_in.voices import Failure

# The parser of regular expressions has no public name.
_parser: Any = __import__("re._parser", fromlist=["parse"])


class PatternVoice:
    """Lines that the patterns of the setup find their numbers in."""

    def __init__(self, job: Job) -> None:
        if job.setup.patterns is None:
            raise AttuneError("framework `command` needs `patterns` in its setup file")
        self._patterns = job.setup.patterns
        self._traceback = MegatronVoice(job)

    def begin(self, rank: int, after_s: float) -> str:
        """Training starts."""
        return f"training starts after {after_s:.0f} s"

    def step(self, step: Step, steps: int) -> str:
        """A line for each number; that of the time, with the number of the step, comes last."""
        patterns = self._patterns
        lines = [example(patterns.loss, "loss", f"{step.loss}")]
        if patterns.grad_norm:
            lines.append(example(patterns.grad_norm, "grad_norm", f"{step.grad_norm}"))
        seconds = step.seconds * (1000 if patterns.step_time_unit == "ms" else 1)
        number = ""
        if patterns.step:
            number = example(patterns.step, "step", str(step.step + patterns.first_step)) + " "
        return "\n".join([*lines, number + example(patterns.step_time, "step_time", f"{seconds}")])

    def memory(self, memory: RankMemory) -> str:
        """The line of the memory pattern, if there is one."""
        if not self._patterns.memory:
            return ""
        unit = {"GiB": 1.0, "GB": 1.073741824, "MiB": 1024.0, "MB": 1073.741824}
        value = memory.reserved_gib * unit[self._patterns.memory_unit]
        return example(self._patterns.memory, "memory", f"{value:.3f}")

    def failure(self, failure: Failure) -> str:
        """Python's traceback."""
        return self._traceback.failure(failure)

    def echo(self, rank: int, message: str) -> str:
        """A rank stops because a peer did."""
        return self._traceback.echo(rank, message)


def example(pattern: str, name: str, number: str) -> str:
    """A text that `pattern` finds `number` in, by its group `name` or else its first one.

    Raises:
        AttuneError: no such text was found; the expression is too artful to be played.
    """
    expression = re.compile(pattern)
    group = expression.groupindex.get(name, 1)
    text = _write(_parser.parse(pattern), group, number)
    match = expression.search(text)
    if match is None or match[group] != number:
        raise AttuneError(
            f"the stand-in cannot write a line that pattern `{name}` reads `{number}` from: "
            f"`{pattern}`"
        )
    return text


def _write(parsed: Any, group: int, number: str) -> str:
    return "".join(_part(str(kind), value, group, number) for kind, value in parsed)


def _part(kind: str, value: Any, group: int, number: str) -> str:
    if kind == "LITERAL":
        return chr(value)
    if kind == "SUBPATTERN":
        return number if value[0] == group else _write(value[-1], group, number)
    if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        return _write(value[2], group, number) * max(value[0], 1 if value[0] else 0)
    if kind == "BRANCH":
        return _write(value[1][0], group, number)
    if kind == "IN":
        return _one_of(value)
    return "x" if kind in ("ANY", "NOT_LITERAL") else ""


def _one_of(choices: Any) -> str:
    kind, value = str(choices[0][0]), choices[0][1]
    if kind == "LITERAL":
        return chr(value)
    if kind == "RANGE":
        return chr(value[0])
    return {"CATEGORY_SPACE": " ", "CATEGORY_DIGIT": "1"}.get(str(value), "x")
