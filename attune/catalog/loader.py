"""Reads the catalogue: models and GPUs by loose name, or from a file that the caller names."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from attune.catalog.gpu import LARGEST_COUNT, Cluster, Gpu
from attune.catalog.hf_config import ImportedModel, read_hf_config
from attune.catalog.model import Model
from attune.catalog.names import folded, nearest
from attune.catalog.places import find_config, own_models_folder
from attune.catalog.yaml_file import parse, read_yaml
from attune.errors import AttuneError

_ROOM = Path(__file__).resolve().parent

_PATHS = {
    "model": "a YAML file, of a Hugging Face config.json or its folder, or a hub id in its cache,",
    "GPU": "a YAML file",
}


@lru_cache
def _entries(folder: str) -> tuple[tuple[str, Any], ...]:
    files = sorted((_ROOM / folder).glob("*.yaml"))
    return tuple((path.stem, read_yaml(path)) for path in files)


def _find(name: str, folder: str, word: str) -> tuple[str, Any]:
    names = {}
    for stem, data in _entries(folder):
        for alias in (stem, data["name"], *data.get("aliases", ())):
            names[folded(alias)] = (stem, data)
    short = name.rsplit("/", 1)[-1]  # `zai-org/GLM-4.5` names a model by its publisher too
    found = names.get(folded(short))
    if found:
        return found
    near = nearest(short, [stem for stem, _ in _entries(folder)])
    hint = f"did you mean `{near}`? " if near else ""
    raise AttuneError(
        f"no {word} named `{name}`; {hint}`attune {word.lower()}s` lists all, "
        f"and the path of {_PATHS[word]} is taken too"
    )


def _is_path(name: str) -> bool:
    return name.endswith((".yaml", ".yml")) or Path(name).is_file()


def load_model(name: str) -> Model:
    """The model of that loose name (`GLM4.5`), of a YAML file, or of a Hugging Face config.

    A config is given as its file, as the folder that holds it, or as the id of a model in the
    hub's cache.

    Raises:
        AttuneError: no such model (the nearest is suggested), or a damaged file.
        UnmodelledError: a config of a model that attune cannot express.
    """
    imported = load_hf_model(name)
    if imported is not None:
        return imported.model
    if _is_path(name):
        return _model_file(Path(name), name)
    own = own_model_files().get(folded(name))
    if own is not None:
        return _model_file(own, str(own))
    stem, data = _find(name, "models", "model")
    return parse(Model, {"id": stem, **data}, stem)


def load_hf_model(name: str) -> ImportedModel | None:
    """The model of that config, folder or hub id; None where `name` means none of them.

    Raises:
        AttuneError: a damaged config, or a folder without one.
        UnmodelledError: a model that attune cannot express.
    """
    found = find_config(name)
    return None if found is None else read_hf_config(found.path, found.name)


def _model_file(path: Path, source: str) -> Model:
    data = read_yaml(path)
    if isinstance(data, dict):
        data = {"id": path.stem, "name": path.stem, "source": str(path), **data}
    return parse(Model, data, source)


def write_model(model: Model) -> str:
    """The text of a catalogue file that `load_model` reads back as `model`, its id apart."""
    data = model.model_dump(mode="json", exclude={"id"}, exclude_defaults=True, exclude_none=True)
    return yaml.safe_dump(data, sort_keys=False, width=100, allow_unicode=True)


def own_model_files() -> dict[str, Path]:
    """Catalogue files that the user added, by folded name."""
    return {folded(path.stem): path for path in sorted(own_models_folder().glob("*.yaml"))}


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
            raise AttuneError(
                f"{overrides} must be a mapping of GPU fields, but got {type(data).__name__}"
            )
        part = parse(Gpu, merged(part.model_dump(), data), str(overrides))
    if not 1 <= count <= LARGEST_COUNT:
        raise AttuneError(f"count must be 1 to {LARGEST_COUNT}, but got {count}")
    if count > part.per_node and count % part.per_node:
        low = count // part.per_node * part.per_node
        raise AttuneError(
            f"count ({count}) does not fill nodes of {part.per_node} {part.name}; "
            f"use {low} or {low + part.per_node}, or give `per_node` in --cluster"
        )
    return Cluster(gpu=part, count=count)


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`base` with `changes` over it; a mapping inside both is merged in turn."""
    result = dict(base)
    for key, value in changes.items():
        inner = result.get(key)
        both = isinstance(inner, dict) and isinstance(value, dict)
        result[key] = merged(inner, value) if both else value  # type: ignore[arg-type]
    return result


def model_names() -> list[str]:
    """Ids of all models of the catalogue, sorted."""
    return [stem for stem, _ in _entries("models")]


def gpu_names() -> list[str]:
    """Ids of all GPUs of the catalogue, sorted."""
    return [stem for stem, _ in _entries("gpus")]
