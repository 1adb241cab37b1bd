"""What a flag or an environment variable may change: its class, as data with a source."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict

from attune.catalog.yaml_file import parse, read_yaml

FlagClass = Literal[
    "layout",
    "memory",
    "kernel",
    "precision",
    "hyper_parameter",
    "model",
    "data",
    "input_output",
    "ignored",
]
"""`kernel` orders or fuses the same mathematics otherwise; `precision` needs a component test;
hyper-parameters, model and data must be equal in both arms."""
Names = tuple[str, ...]
_FOLDER = Path(__file__).resolve().parent / "frameworks" / "classes"
_ALWAYS = ("launchers", "megatron-lm", "slime", "miles", "megatron-bridge")
"""Files in which a flag is looked up, after its framework's own."""


class ClassFile(BaseModel):
    """One file of classes: names as on the command line, without the dashes before them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    layout: Names = ()
    memory: Names = ()
    kernel: Names = ()
    precision: Names = ()
    hyper_parameter: Names = ()
    model: Names = ()
    data: Names = ()
    input_output: Names = ()
    ignored: Names = ()
    prefixes: dict[FlagClass, Names] = {}
    """Names that begin so, where no exact name is listed."""
    sections: dict[FlagClass, Names] = {}
    """Dotted paths of a configuration file, with all that lies under them; the longest counts."""

    def find(self, name: str) -> FlagClass | None:
        """The class of a flag or variable; None where this file does not know it."""
        for kind in get_args(FlagClass):
            if name in getattr(self, kind):
                return kind  # type: ignore[no-any-return]
        for kind, prefixes in self.prefixes.items():
            if name.startswith(prefixes):
                return kind
        return None

    def find_field(self, path: str) -> FlagClass | None:
        """The class of a field of a configuration file."""
        known = {name: kind for kind, names in self.sections.items() for name in names}
        parts = path.split(".")
        tries = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
        return next((known[one] for one in tries if one in known), None)


@lru_cache
def load_classes(name: str) -> ClassFile:
    """The classes of one framework, of `launchers` or of `environment`."""
    path = _FOLDER / f"{name}.yaml"
    return parse(ClassFile, read_yaml(path), path.name)


def class_of_flag(name: str, framework: str | None = None) -> FlagClass | None:
    """The class of a flag (no dashes before it), by its framework first; None if unknown."""
    files = [*([framework] if framework in _ALWAYS else []), *_ALWAYS]
    found = (load_classes(str(file)).find(name) for file in files)
    return next((kind for kind in found if kind), None)


def class_of_field(path: str) -> FlagClass | None:
    """The class of a dotted field: of attune's worker (`worker.workload.seed`) or of Bridge."""
    place, _, rest = path.partition(".")
    if place == "worker":
        return load_classes("megatron-core").find_field(rest)
    return load_classes("megatron-bridge").find_field(path)


def class_of_variable(name: str) -> FlagClass | None:
    """The class of an environment variable; None for an unknown one."""
    return load_classes("environment").find(name)
