"""Reads the catalogue: models and GPUs by loose name, or from a file that the caller names."""

from __future__ import annotations

import difflib
import re
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from attune.catalog.gpu import Cluster, Gpu
from attune.catalog.model import Model
from attune.errors import AttuneError

_ROOM = Path(__file__).resolve().parent
_MAXIMUM_BYTES = 1_000_000

Entry = TypeVar("Entry", bound=BaseModel)


def read_yaml(path: Path) -> Any:
    """Safely loaded content of a small YAML file.

    Raises:
        AttuneError: no such file, too large, not YAML.
    """
    try:
        if path.stat().st_size > _MAXIMUM_BYTES:
            raise AttuneError(f"{path} is over {_MAXIMUM_BYTES} bytes; is it the right file?")
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise AttuneError(f"cannot read {path}: {error}; check the path") from error
    except yaml.YAMLError as error:
        place = " ".join(str(error).split())
        raise AttuneError(f"{path} is not valid YAML: {place}; mend the file") from error


def parse(kind: type[Entry], data: Any, source: str) -> Entry:
    """`data` as a `kind`; every wrong field is named with the value got.

    Raises:
        AttuneError: `data` is not a mapping, or has unknown, missing or wrong fields.
    """
    if not isinstance(data, dict):
        raise AttuneError(f"{source} must be a mapping of fields, but got {type(data).__name__}")
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise AttuneError(f"{source}: {_explain(error, kind)}") from error


def _explain(error: ValidationError, kind: type[BaseModel]) -> str:
    parts = []
    for item in error.errors(include_url=False):
        field = ".".join(str(x) for x in item["loc"]) or "(whole)"
        if item["type"] == "extra_forbidden":
            near = nearest(str(item["loc"][-1]), list(kind.model_fields))
            parts.append(f"unknown field `{field}`" + (f"; did you mean `{near}`?" if near else ""))
        elif item["type"] == "missing":
            parts.append(f"field `{field}` is missing")
        else:
            parts.append(f"field `{field}`: {item['msg']}, but got {item['input']!r}")
    return "; ".join(parts)


def nearest(name: str, names: list[str]) -> str | None:
    """The entry of `names` that is spelt most like `name`, or None."""
    folded = {_fold(x): x for x in names}
    close = difflib.get_close_matches(_fold(name), list(folded), n=1, cutoff=0.4)
    return folded[close[0]] if close else None


def _fold(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


@lru_cache
def _entries(folder: str) -> tuple[tuple[str, Any], ...]:
    files = sorted((_ROOM / folder).glob("*.yaml"))
    return tuple((path.stem, read_yaml(path)) for path in files)


def _find(name: str, folder: str, word: str) -> tuple[str, Any]:
    names = {}
    for stem, data in _entries(folder):
        for alias in (stem, data["name"], *data.get("aliases", ())):
            names[_fold(alias)] = (stem, data)
    found = names.get(_fold(name))
    if found:
        return found
    near = nearest(name, [stem for stem, _ in _entries(folder)])
    hint = f"did you mean `{near}`? " if near else ""
    raise AttuneError(
        f"no {word} named `{name}`; {hint}`attune {word.lower()}s` lists all, "
        "and the path of a YAML file is taken too"
    )


def _is_path(name: str) -> bool:
    return name.endswith((".yaml", ".yml")) or "/" in name


def load_model(name: str) -> Model:
    """The model of that loose name (`GLM4.5`), or of the YAML file at that path.

    Raises:
        AttuneError: no such model (the nearest is suggested), or a damaged file.
    """
    if _is_path(name):
        path = Path(name)
        data = read_yaml(path)
        if isinstance(data, dict):
            data = {"id": path.stem, "name": path.stem, "source": str(path), **data}
        return parse(Model, data, name)
    stem, data = _find(name, "models", "model")
    return parse(Model, {"id": stem, **data}, stem)


def load_gpu(name: str) -> Gpu:
    """The GPU of that loose name (`H200-141GB`), or of the YAML file at that path.

    Raises:
        AttuneError: no such GPU (the nearest is suggested), or a damaged file.
    """
    if _is_path(name):
        return parse(Gpu, read_yaml(Path(name)), name)
    stem, data = _find(name, "gpus", "GPU")
    return parse(Gpu, {"id": stem, **data}, stem)


def load_cluster(gpu: str, count: int, overrides: Path | None = None) -> Cluster:
    """`count` GPUs of a type; the YAML file `overrides` replaces any field of the GPU.

    Raises:
        AttuneError: unknown GPU or field, or a count that does not fill whole nodes.
    """
    part = load_gpu(gpu)
    if overrides is not None:
        data = read_yaml(overrides)
        if not isinstance(data, dict):
            raise AttuneError(f"{overrides} must be a mapping of GPU fields")
        part = parse(Gpu, _merged(part.model_dump(), data), str(overrides))
    if count < 1:
        raise AttuneError(f"count must be at least 1, but got {count}")
    if count > part.per_node and count % part.per_node:
        low = count // part.per_node * part.per_node
        raise AttuneError(
            f"count ({count}) does not fill nodes of {part.per_node} {part.name}; "
            f"use {low} or {low + part.per_node}, or give `per_node` in --cluster"
        )
    return Cluster(gpu=part, count=count)


def _merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        inner = merged.get(key)
        both = isinstance(inner, dict) and isinstance(value, dict)
        merged[key] = _merged(inner, value) if both else value  # type: ignore[arg-type]
    return merged


def model_names() -> list[str]:
    """Ids of all models of the catalogue, sorted."""
    return [stem for stem, _ in _entries("models")]


def gpu_names() -> list[str]:
    """Ids of all GPUs of the catalogue, sorted."""
    return [stem for stem, _ in _entries("gpus")]
