"""What the catalogue knows of a training framework."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from attune.catalog.names import nearest
from attune.catalog.yaml_file import parse, read_yaml
from attune.errors import AttuneError

_FOLDER = Path(__file__).resolve().parent / "frameworks"


Value = bool | int | float | str
Flags = dict[str, Value]
"""Flag and value; true for one without a value."""


class Restriction(BaseModel):
    """A dimension of a layout that a framework has at some values only."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    only: tuple[Value, ...]
    """Values that it has; the first is the cure of a layout with another."""
    reason: str
    since: tuple[int, int] | None = None
    """First megatron-core where this holds; None for all."""
    before: tuple[int, int] | None = None
    """First megatron-core where this no longer holds."""

    def holds(self, version: tuple[int, int]) -> bool:
        """Whether a framework on that megatron-core is restricted so."""
        return (self.since is None or version >= self.since) and (
            self.before is None or version < self.before
        )


class FrameworkFacts(BaseModel):
    """A framework as data: its versions, what it cannot express, and what every run is given."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    name: str
    source: str
    megatron_core: tuple[int, int]
    """Version of megatron-core underneath, unless another version of the framework is named."""
    versions: dict[str, tuple[int, int]] = {}
    """Versions of the framework that are known, and the megatron-core under each."""
    packs_rows: bool = False
    """Whether rows are packed into microbatches of up to rows_per_microbatch (dynamic batching),
    so that the global batch need not divide evenly."""
    rules: frozenset[str] = frozenset()
    """Ids of the extra rules that this framework has."""
    exempt: frozenset[str] = frozenset()
    """Ids of the common rules that it does not have."""
    restrictions: dict[str, Restriction] = {}
    """Dimensions of a layout that it cannot vary freely, by field of `Layout`."""
    flags: Flags = {}
    """Flags of every run, beside those of job and layout; a setup may replace them."""
    implied: dict[str, tuple[Value, ...] | Value] = {}
    """Flags that are not given where they have this value, as the trainer has it by itself."""
    environment: dict[str, str] = {}
    """Variables of every run; a setup may replace them."""
    models: dict[str, str] = {}
    """Name among the framework's own models, by id of the catalogue."""

    def core_of(self, version: str | None) -> tuple[int, int]:
        """The megatron-core under a version of the framework; None is the usual one.

        Raises:
            AttuneError: a version that is not known.
        """
        if version is None:
            return self.megatron_core
        short = ".".join(version.split(".")[:2])
        if short not in self.versions:
            known = ", ".join(self.versions) or "none"
            raise AttuneError(f"{self.name} {version} is not known to attune; known: {known}")
        return self.versions[short]


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
