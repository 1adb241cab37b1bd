"""The parity probe: norms of every tensor's gradient and update, whatever the layout.

A rank knows its own part of each tensor. Parts are summed over the data-parallel group that
shares the optimizer, then over tensor ranks; each tensor goes by its global name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from megatron.core import parallel_state

from attune.trial.worker.config import WorkerConfig
from attune.trial.worker.optimization import Optimization
from attune.trial.worker.weights import global_name, is_routed_expert

PROBED_STEPS = 2
"""The first two: the first shows wrong gradients, the second wrong updates."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """What this rank's optimizer holds of one tensor."""

    name: str
    parameter: torch.nn.Parameter
    held: slice | None
    """Elements that this rank updates; None where other ranks do."""

    @property
    def split(self) -> bool:
        """Whether tensor ranks hold different parts, and not copies."""
        return getattr(self.parameter, "tensor_model_parallel", False)

    def gradient(self) -> torch.Tensor:
        """Gradient of the held elements, summed over microbatches and ranks."""
        return self.parameter.main_grad.view(-1)[self.held]

    def value(self) -> torch.Tensor:
        """The held elements in the optimizer's own precision."""
        main = getattr(self.parameter, "main_param", None)
        return self.parameter.detach().view(-1)[self.held] if main is None else main.detach()


class Measured(NamedTuple):
    """Squared norms of one rank group's part of a tensor."""

    name: str
    split: bool
    stage: int
    gradient: float
    update: float


class Probe:
    """Takes gradients before an update and values around it; one rank writes the norms."""

    def __init__(self, config: WorkerConfig, optimization: Optimization) -> None:
        assert config.parity_file, "the probe is asked for by its file"
        self.file = Path(config.parity_file)
        self.sharded = config.layout.distributed_optimizer
        self.parts = list(_parts(config, optimization))
        self.gradients: list[torch.Tensor] = []
        self.before: list[torch.Tensor] = []

    def take_gradients(self) -> None:
        """Call it when gradients are reduced, before they are clipped."""
        self.gradients = [_square(part, part.gradient) for part in self.parts]
        self.before = [part.value().clone() if part.held else _NOTHING for part in self.parts]

    def report(self, step: int, loss: float | None) -> None:
        """Call it after the update; every rank takes part, the one that knows the loss writes."""
        updates = [
            _square(part, lambda part=part, old=old: part.value() - old)
            for part, old in zip(self.parts, self.before)
        ]
        measured = [
            *self._reduced(updates, expert=False),
            *self._reduced(updates, expert=True),
        ]
        everyone: list[Any] = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(everyone, measured)
        if loss is not None and _writes():
            tensors = merge([Measured(*entry) for entries in everyone for entry in entries])
            line = json.dumps({"step": step, "loss": loss, "tensors": tensors})
            with self.file.open("a", encoding="utf-8") as file:
                file.write(line + "\n")

    def _reduced(self, updates: list[torch.Tensor], expert: bool) -> list[Measured]:
        """Squared norms over the data-parallel group, on its first rank."""
        group = (
            parallel_state.get_expert_data_parallel_group()
            if expert
            else parallel_state.get_data_parallel_group(with_context_parallel=True)
        )
        mine = [i for i, part in enumerate(self.parts) if is_routed_expert(part.name) == expert]
        if not mine:
            return []
        squares = torch.stack([torch.stack((self.gradients[i], updates[i])) for i in mine])
        torch.distributed.all_reduce(squares, group=group)
        if not self.sharded:
            squares /= group.size()
        if group.rank():
            return []
        stage = parallel_state.get_pipeline_model_parallel_rank()
        return [
            Measured(self.parts[i].name, self.parts[i].split, stage, *square)
            for i, square in zip(mine, squares.tolist())
        ]


_NOTHING = torch.empty(0)


def merge(measured: list[Measured]) -> dict[str, dict[str, float]]:
    """Norms by tensor: parts add up, copies must agree (`spread` says how far they do not)."""
    by_name: dict[str, list[Measured]] = {}
    for entry in measured:
        by_name.setdefault(entry.name, []).append(entry)
    return {name: _norms(entries) for name, entries in by_name.items()}


def _norms(entries: list[Measured]) -> dict[str, float]:
    # A tied embedding stands on the first and on the last stage.
    stages: dict[int, list[Measured]] = {}
    for entry in entries:
        stages.setdefault(entry.stage, []).append(entry)
    if entries[0].split:
        copies = [_sum(parts) for parts in stages.values()]
    else:
        copies = [(entry.gradient, entry.update) for entry in entries]
    gradients = [gradient**0.5 for gradient, _ in copies]
    largest = max(gradients)
    spread = (largest - min(gradients)) / largest if largest else 0.0
    return {"gradient": gradients[0], "update": copies[0][1] ** 0.5, "spread": spread}


def _sum(parts: list[Measured]) -> tuple[float, float]:
    return sum(part.gradient for part in parts), sum(part.update for part in parts)


def _square(part: Part, tensor: Any) -> torch.Tensor:
    device = part.parameter.device
    if part.held is None:
        return torch.zeros((), dtype=torch.float64, device=device)
    square: torch.Tensor = tensor().double().square().sum()
    return square


def _parts(config: WorkerConfig, optimization: Optimization) -> Iterator[Part]:
    for wrapped in optimization.chunks:
        chunk = wrapped
        while hasattr(chunk, "module"):
            chunk = chunk.module
        for local_name, parameter in chunk.named_parameters():
            yield Part(
                name=global_name(chunk, local_name, config.model.tied_embeddings),
                parameter=parameter,
                held=_held(optimization.optimizer, parameter),
            )


def _held(optimizer: Any, parameter: torch.nn.Parameter) -> slice | None:
    """Elements of the parameter that this rank's optimizers update."""
    for one in getattr(optimizer, "chained_optimizers", [optimizer]):
        places = getattr(one, "model_param_gbuf_map", None)
        if places is None:
            return slice(0, parameter.numel())
        if parameter in places:
            owned = one._get_model_param_range_map(parameter)["param"]
            return slice(owned.start, owned.end)
    return None


def _writes() -> bool:
    return (
        parallel_state.get_tensor_model_parallel_rank() == 0
        and parallel_state.get_data_parallel_rank(with_context_parallel=True) == 0
    )
