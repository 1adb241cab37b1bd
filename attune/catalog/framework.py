"""What the catalogue knows of a training framework."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from attune.catalog.names import nearest
from attune.catalog.yaml_file import parse, read_yaml
from attune.errors import AttuneError

_FOLDER = Path(__file__).resolve().parent / "frameworks"


class FrameworkFacts(BaseModel):
    """A framework as data: its megatron-core, and how its rules differ from megatron-core's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    name: str
    source: str
    megatron_core: tuple[int, int]
    """Version of megatron-core underneath."""
    packs_rows: bool = False
    """Whether rows are packed into microbatches of up to rows_per_microbatch (dynamic batching),
    so that the global batch need not divide evenly."""
    rules: frozenset[str] = frozenset()
    """Ids of the extra rules that this framework has."""
    exempt: frozenset[str] = frozenset()
    """Ids of the common rules that it does not have."""


def framework_names() -> list[str]:
    """Ids of all frameworks of the catalogue, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


@lru_cache
def load_framework_facts(name: str) -> FrameworkFacts:
    """The facts of the framework of that id.

    Raises:
        AttuneError: no such framework; the nearest is suggested.
    """
    if name not in framework_names():
        near = nearest(name, framework_names())
        hint = f"; did you mean `{near}`?" if near else ""
        known = ", ".join(framework_names())
        raise AttuneError(f"no framework named `{name}`{hint}; known: {known}")
    return parse(FrameworkFacts, {"id": name, **read_yaml(_FOLDER / f"{name}.yaml")}, name)
