"""Everything that `attune recipe check` looks at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pydantic import ValidationError

from attune.recipe.agreement import check_command, check_own_layout, check_words
from attune.recipe.arithmetic import check_grid, check_microbatch, check_model, check_result
from attune.recipe.claims import check_claims
from attune.recipe.problem import Problem
from attune.recipe.schema import Recipe

CHECKS: tuple[Callable[[Recipe], Iterator[Problem]], ...] = (
    check_grid,
    check_model,
    check_microbatch,
    check_words,
    check_own_layout,
    check_command,
    check_result,
    check_claims,
)


def check_recipe(data: Any) -> list[Problem]:
    """Problems of a recipe (or of the plain data of one); empty when it is sound.

    Numbers are checked only in a recipe that the schema accepts.
    """
    try:
        recipe = data if isinstance(data, Recipe) else Recipe.model_validate(data)
    except ValidationError as error:
        return _schema_problems(error)
    return [problem for check in CHECKS for problem in check(recipe)]


def _schema_problems(error: ValidationError) -> list[Problem]:
    problems = []
    for item in error.errors(include_url=False):
        field = ".".join(str(x) for x in item["loc"]) or "(whole)"
        missing = item["type"] == "missing"
        wanted = "the field is required" if missing else item["msg"]
        problems.append(Problem(field, None if missing else item["input"], wanted))
    return problems
