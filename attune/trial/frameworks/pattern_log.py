"""Reads the log of any trainer by the user's regular expressions."""

from __future__ import annotations

import re

from attune.errors import AttuneError
from attune.trial.logs import Reading
from attune.trial.result import RankMemory, Step
from attune.trial.setup import Patterns

_SECONDS = {"s": 1.0, "ms": 1e-3}
_GIB = {"GiB": 1.0, "GB": 1e9 / 2**30, "MiB": 2.0**-10, "MB": 1e6 / 2**30}
_LONGEST = 4000
"""Characters of a line that the user's expressions see: they may take long on longer ones."""


class PatternReader:
    """One number from each expression; a step is reported with its time."""

    sieved = False
    """The user's expressions may find their numbers in any line."""

    def __init__(self, patterns: Patterns | None) -> None:
        self._patterns = patterns or Patterns(loss="(?!)()", step_time="(?!)()")
        self._compiled = {
            name: compiled(name, text)
            for name in ("step", "loss", "step_time", "grad_norm", "memory")
            if (text := getattr(self._patterns, name))
        }
        self._next = 0
        self._loss: float | None = None
        self._grad_norm: float | None = None

    def read(self, line: str) -> Reading | None:
        """What a line says; None where no expression finds a number."""
        line = line[:_LONGEST]
        loss, grad_norm = self._number("loss", line), self._number("grad_norm", line)
        self._loss = self._loss if loss is None else loss
        self._grad_norm = self._grad_norm if grad_norm is None else grad_norm
        seconds = self._number("step_time", line)
        if seconds is not None:
            return self._step(line, seconds)
        memory = self._number("memory", line)
        if memory is None:
            return None
        gib = memory * _GIB[self._patterns.memory_unit]
        return RankMemory(rank=0, stage=0, allocated_gib=gib, reserved_gib=gib)

    def _step(self, line: str, seconds: float) -> Step:
        number = self._number("step", line)
        step = self._next if number is None else int(number) - self._patterns.first_step
        self._next = step + 1
        loss, grad_norm, self._loss, self._grad_norm = self._loss, self._grad_norm, None, None
        seconds *= _SECONDS[self._patterns.step_time_unit]
        return Step(step=step, seconds=seconds, loss=loss, grad_norm=grad_norm)

    def _number(self, name: str, line: str) -> float | None:
        expression = self._compiled.get(name)
        match = expression.search(line) if expression else None
        if match is None:
            return None
        found = match.groupdict().get(name) or match[1]
        return float(found.replace(",", ""))


def compiled(name: str, text: str) -> re.Pattern[str]:
    """The expression, which must have a group for its number.

    Raises:
        AttuneError: it is none, or has no group.
    """
    try:
        expression = re.compile(text)
    except re.error as error:
        raise AttuneError(f"pattern `{name}` is no regular expression: {error}") from error
    if expression.groups < 1:
        raise AttuneError(f"pattern `{name}` has no group for its number: `{text}`")
    return expression
