"""The recipes that ship with attune, found by model and GPU."""

from __future__ import annotations

import math
from pathlib import Path

from attune.catalog import Gpu, load_gpu, shipped
from attune.recipe.files import load_recipe
from attune.recipe.problem import known_gpu
from attune.recipe.schema import Recipe


def find_reference(model_id: str, gpu_id: str) -> Recipe | None:
    """The shipped reference recipe of a model on that GPU, else on the most similar one.

    Similar means close in memory and bf16 peak, by ratio. None where the model has no reference.

    Raises:
        AttuneError: unknown GPU, or a damaged recipe file.
    """
    wanted = load_gpu(gpu_id)
    found = [
        (_distance(wanted, known_gpu(recipe)), str(path), recipe) for path, recipe in _of(model_id)
    ]
    return min(found, key=lambda item: item[:2])[2] if found else None


def recipe_files() -> list[Path]:
    """Every recipe that ships: `recipes/<model>/<gpu>/<name>.yaml`, sorted."""
    return sorted(shipped("recipes").glob("*/*/*.yaml"))


def _of(model_id: str) -> list[tuple[Path, Recipe]]:
    paths = [path for path in recipe_files() if path.parts[-3] == model_id]
    recipes = [(path, load_recipe(path)) for path in paths]
    return [(path, recipe) for path, recipe in recipes if recipe.status == "reference"]


def _distance(wanted: Gpu, other: Gpu | None) -> float:
    """0 for the same GPU; logs of the ratios of memory and peak, added up, otherwise."""
    if other is None:
        return math.inf
    if other.id == wanted.id:
        return 0.0
    memory = abs(math.log(wanted.memory_gib / other.memory_gib))
    peak = abs(math.log(_peak(wanted) / _peak(other)))
    return 1e-9 + memory + peak


def _peak(gpu: Gpu) -> float:
    return gpu.peak_tflops.get("bf16") or max(gpu.peak_tflops.values())
