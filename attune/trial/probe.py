"""Probes: cheap measurements in the place of a trial, as kinds of job."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

PROBING = "megatron-core"
"""The framework that runs probes: attune's own worker."""

LayerKind = Literal["dense", "moe", "head"]


class MemoryProbe(BaseModel):
    """One rank of a layout alone: its process group is fake, its memory is real."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["memory"] = "memory"
    world: int = Field(gt=0)
    """GPUs of the layout; the job itself runs on one."""
    rank: int = Field(ge=0)
    """The rank that is played, from 0; Megatron numbers them tensor first, pipeline last."""
    steps: int = Field(2, gt=0)
    """The first step makes the optimizer's state, the second meets the peak with it."""


class LayerProbe(BaseModel):
    """Time of single layers on one node, with its real collectives."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["layers"] = "layers"
    kinds: tuple[LayerKind, ...] = Field(min_length=1)
    """What is timed, in order."""
    layers: int = Field(2, gt=0)
    """Layers of one kind that are timed in a row."""
    repeats: int = Field(10, gt=0)
    """Passes that are timed, after two that are not."""


Probe = Annotated[MemoryProbe | LayerProbe, Field(discriminator="kind")]
