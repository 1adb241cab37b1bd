"""The published configs of tests/catalog/cases, as their files stand on the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from attune.catalog import Model
from attune.catalog.hf_config import ImportedModel, import_model

CASES = Path(__file__).parent / "cases"
PUBLISHED: dict[str, dict[str, Any]] = yaml.safe_load((CASES / "hf_configs.yaml").read_text())


def config_of(name: str, **changes: Any) -> dict[str, Any]:
    """The config of that model with fields changed; a field given as `...` is left out."""
    config = {**PUBLISHED[name]["config"], **changes}
    if name == "minimax-m2":
        config["attn_type_list"] = [1] * 62
    return {key: value for key, value in config.items() if value is not ...}


def imported(name: str, **changes: Any) -> ImportedModel:
    """The reading of that config."""
    return import_model(config_of(name, **changes), name, "config.json")


def model_of(name: str, **changes: Any) -> Model:
    """The model of that config."""
    return imported(name, **changes).model
