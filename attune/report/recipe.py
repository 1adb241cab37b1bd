"""Recipes as a person reads them: a page, what is wrong, what differs, who is faster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attune.recipe.difference import Difference
from attune.recipe.ranking import Board, provenance_of
from attune.recipe.schema import Recipe
from attune.report.words import (
    ABSENT,
    badge,
    escaped,
    grid,
    number,
    percent,
    say,
    say_marked,
    say_whole,
)

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


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedRecipes:
    """Two recipes and everything that differs."""

    first: Path
    second: Path
    differences: tuple[Difference, ...]


def draw_checked_recipe(checked: CheckedRecipe, console: Console) -> None:
    """Each wrong field with its reason."""
    if checked.passed:
        say(console, f"{checked.path}: every check passed")
        return
    count = len(checked.problems)
    say(console, f"{checked.path}: {count} problem{'s' if count > 1 else ''}")
    for problem in checked.problems:
        say(console, f"  {problem.field}: {problem.reason}")


def draw_recipe(recipe: Recipe, console: Console) -> None:
    """The page of a recipe: facts, stack, environment, command, notes."""
    say_marked(
        console,
        f"[bold]{escaped(recipe.model)} on {recipe.gpu.count} x {escaped(recipe.gpu.type)}[/]  "
        f"{badge(provenance_of(recipe))}",
    )
    for name, text in facts_of(recipe):
        say(console, f"  {name:<18} {text}")
    _draw_block(console, "stack", recipe.stack.model_dump(exclude_none=True))
    _draw_block(console, "environment", recipe.env)
    for title, text in (("command (as text)", recipe.run), ("notes", recipe.notes or "")):
        if text.strip():
            say_marked(console, f"[bold]{title}[/]")
            say_whole(console, text.rstrip())


def _draw_block(console: Console, title: str, values: dict[str, object] | dict[str, str]) -> None:
    if values:
        say_marked(console, f"[bold]{title}[/]")
    for name, value in values.items():
        say(console, f"  {name:<18} {value}")


def facts_of(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Names and words of what a recipe page tells first."""
    yield "status", f"{recipe.status}, by {recipe.author.name}"
    yield "layout", recipe.layout.summary
    yield "workload", _workload(recipe)
    yield from _figures(recipe)
    if recipe.correctness is not None:
        yield "correctness", f"{recipe.correctness.result}: {recipe.correctness.summary}"
        yield "reference", recipe.correctness.reference
    if recipe.attune is not None and recipe.attune.source:
        yield "source", recipe.attune.source


def _workload(recipe: Recipe) -> str:
    workload = recipe.workload
    rows = f"{workload.global_batch} rows of {workload.row_tokens:,} tokens, {workload.precision}"
    digest = workload.dataset.rows_sha256 if workload.dataset else None
    return f"{rows}; rows {digest[:12]}..." if digest else rows


def _figures(recipe: Recipe) -> Iterator[tuple[str, str]]:
    result = recipe.result
    if result is None:
        yield "tokens/s/GPU", "not stated"
        return
    yield "tokens/s/GPU", f"{number(result.tokens_per_s_per_gpu, 2)} ({provenance_of(recipe)})"
    if result.usd_per_million_tokens is not None:
        yield "$ / 1M tokens", f"{result.usd_per_million_tokens:,.2f}"
    if result.mfu is not None:
        yield "MFU", percent(result.mfu)
    if result.step_time_cv_percent is not None:
        yield "step-time CV", f"{result.step_time_cv_percent:g} %"
    if result.measured is not None:
        yield "measured", f"{result.measured}, {result.runs} run{'s' if result.runs > 1 else ''}"
    if result.gpu_hours is not None:
        yield "GPU-hours", f"{result.gpu_hours:,.2f}"


def draw_comparison(compared: ComparedRecipes, console: Console) -> None:
    """What the second recipe does differently from the first, part by part."""
    say(console, f"- {compared.first}")
    say(console, f"+ {compared.second}")
    if not compared.differences:
        say(console, "the same in layout, workload, command, environment, stack and result")
    part = ""
    for difference in compared.differences:
        if difference.part != part:
            part = difference.part
            say_marked(console, f"[bold]{part}[/]")
        say(console, f"  {difference.name}: {_change(difference)}")


def _change(difference: Difference) -> str:
    more = difference.change_percent
    words = f"{_value(difference.before)} -> {_value(difference.after)}"
    return words if more is None else f"{words} ({more:+.1f} %)"


def _value(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return " ".join(map(str, value)) or ABSENT
    if isinstance(value, bool):
        return "on" if value else "off"
    return ABSENT if value is None else str(value)


def draw_boards(boards: Sequence[Board], console: Console) -> None:
    """A ranked table for each model and GPU; predictions stand below, without a place."""
    for board in boards:
        say_marked(console, f"[bold]{escaped(board.model)} on {escaped(board.gpu)}[/]")
        table = grid(("#", "layout", "GPUs", "tokens/s/GPU", "$/1M", "from", "author"), left=2)
        for row in board.ranked:
            result = row.recipe.result
            table.add_row(
                str(row.place or ABSENT),
                escaped(row.recipe.layout.label),
                str(row.recipe.gpu.count),
                number(result.tokens_per_s_per_gpu if result else None, 1),
                number(result.usd_per_million_tokens if result else None, 2),
                badge(row.provenance),
                escaped(row.recipe.author.name),
            )
        console.print(table)
