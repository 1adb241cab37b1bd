"""Recipes in order: fastest first among those that ran, predictions apart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from attune.recipe.problem import known_gpu, known_model
from attune.recipe.schema import Recipe, Status
from attune.trial.result import Provenance

_WEAKEST_FIRST: tuple[Provenance, ...] = ("predicted", "published", "measured", "verified")
_MOST: dict[Status, Provenance] = {
    "predicted": "predicted",
    "reference": "published",
    "measured": "measured",
    "verified": "verified",
}
"""The strongest provenance that goes with each status."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranked:
    """A recipe and its place among those of its model and GPU."""

    recipe: Recipe
    path: Path
    place: int | None
    """1 for the fastest that ran; None for one that nothing was measured of."""
    provenance: Provenance


@dataclass(frozen=True, kw_only=True, slots=True)
class Board:
    """All recipes of one model on one GPU."""

    model: str
    gpu: str
    ranked: tuple[Ranked, ...]
    """Those with a measured result, by tokens/s/GPU; then predicted ones; then those without."""


def provenance_of(recipe: Recipe) -> Provenance:
    """Where a recipe's figures come from: never more than its status claims.

    A recipe that does not say so is somebody's claim.
    """
    told: Provenance = "published" if recipe.attune is None else recipe.attune.provenance
    return min(told, _MOST[recipe.status], key=_WEAKEST_FIRST.index)


def rank(recipes: Iterable[tuple[Path, Recipe]]) -> list[Board]:
    """One board for each model and GPU, by name; on each the fastest measured recipe is first.

    A predicted figure takes no place, however high it is.
    """
    groups: dict[tuple[str, str], list[tuple[Path, Recipe]]] = {}
    for path, recipe in recipes:
        groups.setdefault(_heading(recipe), []).append((path, recipe))
    return [
        Board(model=model, gpu=gpu, ranked=_ordered(group))
        for (model, gpu), group in sorted(groups.items())
    ]


def _heading(recipe: Recipe) -> tuple[str, str]:
    model, gpu = known_model(recipe), known_gpu(recipe)
    return model.name if model else recipe.model, gpu.name if gpu else recipe.gpu.type


def _ordered(group: list[tuple[Path, Recipe]]) -> tuple[Ranked, ...]:
    rows = sorted(group, key=lambda item: _key(*item))
    places = iter(range(1, len(rows) + 1))
    return tuple(
        Ranked(
            recipe=recipe,
            path=path,
            place=next(places) if _ran(recipe) else None,
            provenance=provenance_of(recipe),
        )
        for path, recipe in rows
    )


def _key(path: Path, recipe: Recipe) -> tuple[bool, bool, float, str]:
    rate = recipe.result.tokens_per_s_per_gpu if recipe.result else 0.0
    return not _ran(recipe), recipe.result is None, -rate, str(path)


def _ran(recipe: Recipe) -> bool:
    return recipe.result is not None and provenance_of(recipe) != "predicted"
