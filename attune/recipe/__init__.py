"""Recipes: their schema, their files, their checks, and building one."""
