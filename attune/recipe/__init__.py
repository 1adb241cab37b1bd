"""Recipes: their schema, their files, their checks, and building one."""

from attune.recipe.files import dump_recipe, load_recipe
from attune.recipe.layouts import layout_block, layout_of
from attune.recipe.schema import Check, Recipe

__all__ = [
    "Check",
    "Recipe",
    "dump_recipe",
    "layout_block",
    "layout_of",
    "load_recipe",
]
