"""Two arms' settings compared flag by flag, by the class of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from attune.catalog.flag_classes import (
    FlagClass,
    class_of_field,
    class_of_flag,
    class_of_variable,
)
from attune.recipe.schema import Check
from attune.verify.commands import Command

FAIL: frozenset[FlagClass] = frozenset({"hyper_parameter", "model", "data"})
"""Classes in which the arms must agree."""
LISTED: frozenset[FlagClass] = frozenset({"kernel"})
"""Classes that may differ and are named."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting in which the arms differ."""

    name: str
    """As it is written: `--lr`, `NCCL_DEBUG`, `workload.seed`."""
    kind: FlagClass | None
    """None where no file classes it."""
    ours: str | None
    theirs: str | None
    """None where the arm does not set it."""

    @property
    def words(self) -> str:
        """The difference in words."""
        return f"{self.name}: {_shown(self.ours)} against {_shown(self.theirs)}"


def differing(candidate: Command, reference: Command) -> list[Setting]:
    """Every setting in which the arms differ, each with its class."""
    framework = candidate.framework or reference.framework
    return [
        *_apart(candidate.flags, reference.flags, "--", lambda n: _flag(n, framework)),
        *_apart(candidate.variables, reference.variables, "", class_of_variable),
        *_apart(candidate.fields, reference.fields, "", lambda n: _field(n, framework)),
    ]


def check_flags(candidate: Command, reference: Command) -> Check:
    """`configuration` of two commands: what differs must be of a class that may differ.

    Layout and memory may differ; kernel choices may and are listed; precision needs a component
    test, which is said; hyper-parameters, model and data may not; an unknown setting may not.
    """
    settings = differing(candidate, reference)
    wrong = [s for s in settings if s.kind in FAIL]
    unknown = [s for s in settings if s.kind is None]
    rounded = [s for s in settings if s.kind == "precision"]
    listed = [s for s in settings if s.kind in LISTED]
    kinds = sorted({s.kind for s in settings if s.kind in ("layout", "memory")}, key=str)
    parts = [
        *(f"{str(s.kind).replace('_', '-')} {s.words}" for s in wrong),
        *(f"not classed, so it may not differ: {s.words}" for s in unknown),
        *(f"needs a component test: {s.words}" for s in rounded),
        *([f"kernel choices differ: {'; '.join(s.words for s in listed)}"] if listed else []),
    ]
    same = f"the arms differ in {' and '.join(map(str, kinds)) or 'nothing'} alone"
    return Check(
        name="configuration",
        status="failed" if wrong or unknown else "passed",
        detail="; ".join(parts) or same,
        values={"differing": {s.name: [s.kind, s.ours, s.theirs] for s in settings}},
    )


def needed_components(settings: list[Setting]) -> tuple[str, ...]:
    """Names of the settings whose difference asks for a component test."""
    return tuple(setting.name for setting in settings if setting.kind == "precision")


def _apart(
    ours: dict[str, str],
    theirs: dict[str, str],
    before: str,
    kind: Callable[[str], FlagClass | None],
) -> Iterator[Setting]:
    for name in sorted(ours.keys() | theirs.keys()):
        pair = ours.get(name), theirs.get(name)
        if pair[0] != pair[1]:
            yield Setting(name=before + name, kind=kind(name), ours=pair[0], theirs=pair[1])


def _flag(name: str, framework: str | None) -> FlagClass | None:
    # A script or an array of arguments that is read from elsewhere names the model.
    if name == "source" or name.startswith("$"):
        return "model"
    return class_of_flag(name, framework)


def _field(path: str, framework: str | None) -> FlagClass | None:
    return class_of_field(path) or class_of_flag(
        path.rpartition(".")[2].replace("_", "-"), framework
    )


def _shown(value: str | None) -> str:
    if value is None:
        return "not set"
    return f"`{value}`" if value else "set"
