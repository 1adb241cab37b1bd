"""Component tests as data: which knob needs which, and the bound that it is held to."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from attune.catalog.yaml_file import parse, read_yaml

_FILE = Path(__file__).resolve().parent / "frameworks" / "classes" / "components.yaml"


class Component(BaseModel):
    """One part of the step that is tested alone."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    knob: str
    """What the test judges, in words."""
    changes_arithmetic: bool
    """Whether `verified` rests on the test; else the knob only orders sums otherwise."""
    on_cpu: bool
    """Whether the knob does on CPU what it does on a GPU."""
    bound: float = Field(gt=0)
    """Largest relative L2 difference of the worst tensor."""
    note: str


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    components: tuple[Component, ...]


@lru_cache
def load_components() -> tuple[Component, ...]:
    """Every component test."""
    return parse(_File, read_yaml(_FILE), _FILE.name).components
