"""How a chat format marks what the model must learn to write."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from attune.errors import AttuneError

TEMPLATE = "template"
"""Name of the family whose spans the template itself marks with `{% generation %}`."""


class Family(BaseModel):
    """One chat format of `families.yaml`, which explains the fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    start: str
    skip: str = ""
    stops: tuple[str, ...]
    ends: tuple[str, ...] = ()
    source: str

    @property
    def openers(self) -> tuple[str, ...]:
        """Control tokens before an assistant turn."""
        return tuple(re.findall(r"<\|[^>]*\|>", self.start.replace("\\", "")))

    @property
    def markers(self) -> tuple[str, ...]:
        """Control tokens that no author of a message may write, the model included."""
        return tuple(dict.fromkeys((*self.openers, *self.stops, *self.ends)))


@cache
def _families() -> dict[str, Family]:
    text = resources.files("attune.rows").joinpath("families.yaml").read_text(encoding="utf-8")
    data: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return {name: Family(name=name, **fields) for name, fields in data.items()}


def family_names() -> tuple[str, ...]:
    """What `--loss-mask` takes."""
    return (*_families(), TEMPLATE)


def load_family(name: str) -> Family | None:
    """The family of that name; None for `template`, whose template marks its spans.

    Raises:
        AttuneError: no such family.
    """
    if name == TEMPLATE:
        return None
    found = _families().get(name)
    if found is None:
        raise AttuneError(f"no loss mask `{name}`; there are {', '.join(family_names())}")
    return found
