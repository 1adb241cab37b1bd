"""Where models lie outside the catalogue: configs, the hub's cache, and those the user added.

The one file of this room that reads the environment, as these places are set there.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from attune.errors import AttuneError

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_LONGEST_PATH = 4096
_LONGEST_NAME = 255
"""PATH_MAX and NAME_MAX of Linux; longer ones cannot even be looked for."""
_OTHER_FILES = {
    "model_index.json": "a diffusion pipeline, and diffusion models are not supported",
    "adapter_config.json": "an adapter; give the folder of its base model",
    "params.json": "a model in Meta's format; give its Hugging Face version",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundConfig:
    """A config on disk."""

    path: Path
    name: str
    """Name of the model that it describes."""


def find_config(name: str) -> FoundConfig | None:
    """The config that `name` means: a JSON file, a folder, or an id in the hub's cache.

    Raises:
        AttuneError: a folder without config.json, or a JSON file that is not there.
    """
    path = Path(name).expanduser() if name.startswith("~/") else Path(name)
    if len(name) > _LONGEST_PATH or any(len(part) > _LONGEST_NAME for part in path.parts):
        raise AttuneError(f"no model of {len(name)} letters, {name[:40]}...; check the path")
    if path.suffix == ".json":
        if not path.is_file():
            raise AttuneError(f"no file {name}; check the path")
        return FoundConfig(path=path, name=_name(path))
    if os.sep in name or path.is_dir():
        cached = _cached_config(name) if _HUB_ID.fullmatch(name) else None
        if cached is not None and not path.is_dir():
            return FoundConfig(path=cached, name=name.rsplit("/", 1)[-1])
    return _in_folder(path, name) if path.is_dir() else None


def _in_folder(folder: Path, name: str) -> FoundConfig | None:
    config = folder / "config.json"
    if config.is_file():
        return FoundConfig(path=config, name=_name(config))
    for other, words in _OTHER_FILES.items():
        if (folder / other).is_file():
            raise AttuneError(f"folder {name} holds {other}, of {words}")
    if os.sep not in name:  # a folder may bear the name of a model of the catalogue
        return None
    raise AttuneError(f"folder {name} holds no config.json; give the folder of a model")


def _name(config: Path) -> str:
    """The folder's name for a `config.json`, else its own; the hub's where it lies in a cache."""
    folder = config.parent.resolve()
    for part in folder.parts:
        if part.startswith("models--"):
            return part.rsplit("--", 1)[-1]
    stem = re.sub(r"[._-]?config$", "", config.stem)
    return stem or folder.name or "model"


def hub_cache() -> Path:
    """Folder of the Hugging Face hub's cache, as its own library finds it."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(variable):
            return Path(os.environ[variable]).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{base}/huggingface"
    return Path(home).expanduser() / "hub"


def _cached_config(identifier: str) -> Path | None:
    folder = hub_cache() / f"models--{identifier.replace('/', '--')}"
    main = folder / "refs" / "main"
    if main.is_file():
        config = folder / "snapshots" / main.read_text(encoding="utf-8").strip() / "config.json"
        if config.is_file():
            return config
    snapshots = sorted(folder.glob("snapshots/*/config.json"), key=lambda x: x.stat().st_mtime)
    return snapshots[-1] if snapshots else None


def own_models_folder() -> Path:
    """`models/` under `ATTUNE_HOME`, else under the current folder: what `models add` writes."""
    return Path(os.environ.get("ATTUNE_HOME", ".")) / "models"
