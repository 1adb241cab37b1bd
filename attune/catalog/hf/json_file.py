"""Reads a JSON object from a small file, strictly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attune.errors import AttuneError

_MAXIMUM_BYTES = 16_000_000
"""Published configs that list every quantized layer take 3 MB; a larger file is something else."""


def read_json(path: Path) -> dict[str, Any]:
    """The object in the file.

    Raises:
        AttuneError: no such file, too large, not JSON, the same key twice with two values, or
            no object.
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(_MAXIMUM_BYTES + 1)
        if len(content) > _MAXIMUM_BYTES:
            raise AttuneError(f"{path} is over {_MAXIMUM_BYTES} bytes; is it a config.json?")
        data = json.loads(
            content.decode("utf-8-sig"), object_pairs_hook=_object, parse_constant=_no_constant
        )
    except OSError as error:
        words = error.strerror or error
        raise AttuneError(f"cannot read {path}: {words}; check the path") from error
    except _WrongContentError as error:
        raise AttuneError(f"{path}: {error}") from error
    except (ValueError, RecursionError) as error:
        place = " ".join(str(error).split())
        raise AttuneError(f"{path} is not valid JSON: {place}; download it again") from error
    if not isinstance(data, dict):
        kind = type(data).__name__
        raise AttuneError(f"{path} must be a JSON object of fields, but got a {kind}")
    return data


class _WrongContentError(ValueError):
    pass


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for key, value in pairs:
        if key in data and data[key] != value:
            raise _WrongContentError(
                f"field `{repr(key)[1:-1]:.60}` stands twice, as {data[key]!r:.40} and "
                f"{value!r:.40}; keep one"
            )
        data[key] = value
    return data


def _no_constant(name: str) -> float:
    # Some writers leave Infinity in fields that no shape depends on; as a size it is refused.
    return float(name.replace("Infinity", "inf"))
