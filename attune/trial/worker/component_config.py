"""What a launch of component tests is asked, and what it answers; no torch here."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from attune.catalog import Model
from attune.trial.worker.config import Device

LINE = "attune component | "
"""Begins the log line of a result; JSON follows."""
Status = Literal["passed", "failed", "not run"]


class ComponentsConfig(BaseModel):
    """What is tested: a layer of a model, on a device."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Model
    device: Device
    tests: tuple[str, ...]
    """Ids of `attune.catalog.components`."""


class ComponentResult(BaseModel):
    """What became of one component test."""

    model_config = ConfigDict(frozen=True)

    id: str
    status: Status
    shape: str
    device: str
    bound: float
    value: float | None = None
    """Worst relative L2 difference over tensors."""
    control: float | None = None
    """The same of the negative control, which must lie over the bound."""
    detail: str


def read_results(text: str) -> tuple[ComponentResult, ...]:
    """The results in the output of a launch."""
    lines = (line.partition(LINE)[2] for line in text.splitlines())
    return tuple(ComponentResult.model_validate_json(line) for line in lines if line)
