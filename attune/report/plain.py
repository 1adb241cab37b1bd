"""Results as plain data, for `--json`."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import PurePath
from typing import Any

import numpy as np
from pydantic import BaseModel


def plain(value: Any) -> Any:
    """`value` in dicts, lists, numbers and text; infinite and missing numbers become None."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, BaseModel):
        return plain(value.model_dump(mode="json"))
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, PurePath):
        return value.as_posix()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
