"""How a framework is installed, and what of the user's it trains with: a YAML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from attune.catalog import parse, read_yaml
from attune.errors import AttuneError

Value = bool | int | float | str


class Patterns(BaseModel):
    """Regular expressions that read the log of a trainer which attune does not know.

    Each is searched in every line; its first group, or the named one, is the number.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    step: str | None = None
    """The number of a step; without it, steps are counted by the lines that `step_time` finds."""
    first_step: int = Field(1, ge=0, le=1)
    """What the log calls the first step."""
    loss: str
    step_time: str
    step_time_unit: str = Field("s", pattern="^(s|ms)$")
    grad_norm: str | None = None
    memory: str | None = None
    """Peak memory of the rank that prints the line."""
    memory_unit: str = Field("GiB", pattern="^(GiB|GB|MiB|MB)$")


class Setup(BaseModel):
    """What a framework needs to know beyond the job; all paths hold on the nodes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str | None = Field(None, pattern=r"^\d+\.\d+(\.\d+)?$")
    """Version of the framework; None is the one that the catalogue takes for granted."""
    checkout: str = "."
    """Folder of the framework's own checkout."""
    script: str | None = None
    """Script of the checkout in place of the usual one."""
    model_args: str | None = None
    """Name of the model among the checkout's own (miles, slime); None takes the catalogue's."""
    recipe: str | None = None
    """Recipe function of Megatron-Bridge."""
    hf_checkpoint: str | None = None
    """Folder with the model's config.json and tokenizer."""
    checkpoint: str | None = None
    """Layout-free distributed checkpoint that every arm starts from."""
    checkpoint_sha256: str | None = None
    environment: dict[str, str] = {}
    """Variables of the trainer, on top of those that attune sets."""
    environment_on_nodes: bool = False
    """The nodes have `environment` already (set in the pod or where Ray was started)."""
    flags: dict[str, Value] = {}
    """Flags on top of attune's; true for one without a value, false leaves one of attune's out.
    For Megatron-Bridge, overrides by their dotted names."""
    command: str | None = None
    """Command line of `framework: command`, with {tp}, {pp}, ... in it."""
    patterns: Patterns | None = None
    """How to read the log of `framework: command`."""
    torchrun: bool = True
    """Whether `command` is started by torchrun on every node; else once, on the first."""
    probe_memory: bool = True
    """Have miles and slime print memory of every rank, by a hook between steps."""

    @field_validator("environment")
    @classmethod
    def _names(cls, value: dict[str, str]) -> dict[str, str]:
        wrong = [name for name in value if not name.isidentifier()]
        if wrong:
            raise ValueError(f"`{wrong[0]}` is no name of an environment variable")
        return value


def read_setup(name_or_path: str, **given: Any) -> tuple[str, Setup]:
    """Name and setup of a framework, from its name or from the YAML file of a setup.

    A file has `framework: NAME` beside the fields of `Setup`. `given` fields win; None is not
    given.

    Raises:
        AttuneError: no such file, an unknown field, a value of the wrong kind.
    """
    data: dict[str, Any] = {}
    name = name_or_path
    if name_or_path.endswith((".yaml", ".yml")):
        read = read_yaml(Path(name_or_path))
        if not isinstance(read, dict) or not isinstance(read.get("framework"), str):
            raise AttuneError(f"{name_or_path} must say which framework it sets up: `framework:`")
        data = dict(read)
        name = data.pop("framework")
    data |= {key: value for key, value in given.items() if value is not None}
    return name, parse(Setup, data, name_or_path)
