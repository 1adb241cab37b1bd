"""The catalogue as a person reads it: lists of models and GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attune.report.words import grid, number, say, size

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedModel:
    """A model of the catalogue with its size."""

    id: str
    name: str
    kind: str
    """`dense` or `MoE`."""
    layers: int
    total_parameters: int
    active_parameters: int
    """Parameters that one token meets, as the published MFU figures count them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedGpu:
    """A GPU of the catalogue."""

    id: str
    name: str
    architecture: str
    memory_gb: float
    peak_bf16_tflops: float
    """Dense peak, TFLOP/s."""
    per_node: int
    usd_per_gpu_hour: float


def draw_models(models: Sequence[ListedModel], console: Console) -> None:
    """One line a model: id, kind, layers, total and active parameters."""
    table = grid(["model", "kind", "layers", "parameters", "active"], left=2)
    for model in models:
        table.add_row(
            model.id,
            model.kind,
            str(model.layers),
            size(model.total_parameters),
            size(model.active_parameters),
        )
    console.print(table)
    say(console, "active: parameters that one token meets, without the input embedding")


def draw_gpus(gpus: Sequence[ListedGpu], console: Console) -> None:
    """One line a GPU: id, memory, peak, GPUs per node, price."""
    table = grid(["GPU", "kind", "memory GB", "bf16 TFLOP/s", "per node", "$/GPU-hour"], left=2)
    for gpu in gpus:
        table.add_row(
            gpu.id,
            gpu.architecture,
            f"{gpu.memory_gb:g}",
            f"{gpu.peak_bf16_tflops:g}",
            str(gpu.per_node),
            number(gpu.usd_per_gpu_hour, 2),
        )
    console.print(table)
    say(console, "TFLOP/s: dense peak. Prices are list prices or estimates; --cluster sets yours")
