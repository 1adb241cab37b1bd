"""What a site tells a launcher: `--launcher-option name=value`, checked by name and type."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from attune.catalog import nearest
from attune.errors import AttuneError

_BETWEEN = re.compile(r",(?![^\[]*\])")
"""A comma between names, but not one inside `node[1,3]`."""


def _names(value: object) -> object:
    return tuple(filter(None, _BETWEEN.split(value))) if isinstance(value, str) else value


def _words(value: object) -> object:
    return tuple(value.split()) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
"""Names with commas between them."""
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
"""Words with blanks between them."""


class LauncherOptions(BaseModel):
    """What every launcher of a cluster can be told."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    exclude: Names = ()
    """Nodes that get no run."""
    queue_limit_s: float = Field(86400.0, gt=0)
    """How long a run may wait for its nodes: a day."""
    poll_s: float = Field(5.0, gt=0)
    """Seconds between two questions to the scheduler."""
    python: str = sys.executable
    """The interpreter of the nodes: attune's own, or one of the container."""
    template: Path | None = None
    """The site's own template in place of the one that comes with attune."""


Options = TypeVar("Options", bound=LauncherOptions)


def read_options(kind: type[Options], launcher: str, given: Mapping[str, object]) -> Options:
    """The options of a launcher from words.

    Raises:
        AttuneError: a name that it has not, or a value of another kind.
    """
    known = list(kind.model_fields)
    for name in given:
        if name not in known:
            near = nearest(name, known)
            hint = f"; did you mean `{near}`?" if near else "."
            raise AttuneError(
                f"launcher {launcher} has no option `{name}`{hint} There are: {', '.join(known)}"
            )
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise AttuneError(
            f"option `{name}` of launcher {launcher}: {first['msg']}, got {first['input']!r}"
        ) from error


def without(options: Options, nodes: tuple[str, ...]) -> Options:
    """The options with more nodes left out."""
    exclude = tuple(dict.fromkeys((*options.exclude, *nodes)))
    return options.model_copy(update={"exclude": exclude})


def read_template(options: LauncherOptions, name: str) -> str:
    """The site's template, or the one of that name that comes with attune.

    Raises:
        AttuneError: the site's cannot be read.
    """
    path = options.template or Path(__file__).with_name("templates") / name
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AttuneError(f"cannot read template {path}: {error}") from error
