"""What is wrong with a recipe, and what the catalogue knows about it."""

from __future__ import annotations

from dataclasses import dataclass

from attune.catalog import Gpu, Model, load_gpu, load_model
from attune.errors import AttuneError
from attune.recipe.schema import Recipe


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a recipe."""

    field: str
    """Dotted name, such as `layout.dp`."""
    value: object
    """What the recipe says."""
    expectation: str
    """What it should be, and why."""

    @property
    def reason(self) -> str:
        """`is 3, but ...`."""
        text = repr(self.value)
        return f"is {text[:120]}{'...' if text[120:] else ''}, but {self.expectation}"

    def __str__(self) -> str:
        return f"{self.field} {self.reason}"


def known_model(recipe: Recipe) -> Model | None:
    """The catalogue's model of that id or name; None where it has none."""
    for name in (recipe.attune.model_id if recipe.attune else "", recipe.model):
        try:
            if _is_name(name):
                return load_model(name)
        except AttuneError:
            continue
    return None


def known_gpu(recipe: Recipe) -> Gpu | None:
    """The catalogue's GPU of the recipe's type; None where it has none."""
    try:
        return load_gpu(recipe.gpu.type) if _is_name(recipe.gpu.type) else None
    except AttuneError:
        return None


def _is_name(text: str) -> bool:
    """A recipe may name an entry of the catalogue, never a file for us to read."""
    return bool(text) and "/" not in text and not text.endswith((".yaml", ".yml"))
