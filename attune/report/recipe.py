"""What is wrong with a recipe, as a person reads it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attune.report.words import say

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True, slots=True)
class RecipeProblem:
    """A field that is wrong."""

    field: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedRecipe:
    """A recipe file after its checks."""

    path: Path
    problems: tuple[RecipeProblem, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def draw_checked_recipe(checked: CheckedRecipe, console: Console) -> None:
    """Each wrong field with its reason."""
    if checked.passed:
        say(console, f"{checked.path}: every check passed")
        return
    count = len(checked.problems)
    say(console, f"{checked.path}: {count} problem{'s' if count > 1 else ''}")
    for problem in checked.problems:
        say(console, f"  {problem.field}: {problem.reason}")
