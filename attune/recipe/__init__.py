"""Recipes: their schema, their files, their checks, and building one."""

from attune.recipe.build import build_recipe
from attune.recipe.checks import check_recipe
from attune.recipe.files import dump_recipe, load_recipe, read_data
from attune.recipe.layouts import layout_block, layout_of
from attune.recipe.library import find_reference, recipe_files
from attune.recipe.problem import Problem
from attune.recipe.schema import Check, Gains, Predictions, Recipe, json_schema, unknown_fields

__all__ = [
    "Check",
    "Gains",
    "Predictions",
    "Problem",
    "Recipe",
    "build_recipe",
    "check_recipe",
    "dump_recipe",
    "find_reference",
    "json_schema",
    "layout_block",
    "layout_of",
    "load_recipe",
    "read_data",
    "recipe_files",
    "unknown_fields",
]
