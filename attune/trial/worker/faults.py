"""Planted mistakes: what goes wrong silently in real trainers, for the checks to find.

A fault changes what the worker does, not what its job says: both arms claim the same
configuration. Those that are another value of the workload could also be asked for openly, and
then the configuration check alone must find them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.tensor_parallel import ColumnParallelLinear

from attune.trial.worker.config import WorkerConfig
from attune.trial.worker.rows import Microbatch
from attune.workload import Optimization

_LAYER = 1
"""The layer, from 0, that is dropped, or changes places with the next."""
_EXPERT = 1
"""The expert, from 0, that is never updated, in every layer."""

_OTHER_VALUES: dict[str, Callable[[Optimization, int], dict[str, float]]] = {
    "auxiliary_loss": lambda values, _: {"auxiliary_loss": 2 * values.auxiliary_loss},
    "learning_rate": lambda values, _: {
        "learning_rate": 1.02 * values.learning_rate,
        "min_learning_rate": 1.02 * values.min_learning_rate,
    },
    "warmup": lambda values, steps: {"warmup_fraction": values.warmup_fraction + 1 / steps},
    "beta2": lambda values, _: {"adam_beta2": (1 + values.adam_beta2) / 2},
    # Megatron reports no norm where clipping is off, so it is set out of reach.
    "clip_off": lambda values, _: {"clip_grad": 1e9},
}
"""Faults that are another value: 2 % more learning rate, one step more of warm-up, and so on."""


def mistaken(config: WorkerConfig) -> WorkerConfig:
    """What the worker trains in place of what `config` asks for."""
    change = _OTHER_VALUES.get(config.options.fault or "")
    if change is None:
        return config
    values, steps = config.workload.optimization, config.workload.steps
    optimization = values.model_copy(update=change(values, steps))
    workload = config.workload.model_copy(update={"optimization": optimization})
    return config.model_copy(update={"workload": workload})


def spoil_transformer(fault: str | None, settings: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the transformer's configuration, with a fault of the model in them."""
    return {**settings, "hidden_dropout": 0.1} if fault == "dropout" else settings


def spoil_layer(fault: str | None, layer: Any) -> None:
    """A layer's specification: latent attention as megatron-core 0.16.1 builds it by itself."""
    if fault == "rope_gradients_lost":
        attention = layer.submodules.self_attention.submodules
        attention.linear_q_down_proj = attention.linear_kv_down_proj = ColumnParallelLinear


def spoil_name(fault: str | None, name: str) -> str:
    """The name whose weights a parameter starts from: two layers change places."""
    if fault != "layers_reordered":
        return name
    first, second = (f"decoder.layers.{number}." for number in (_LAYER + 1, _LAYER + 2))
    if name.startswith(first):
        return name.replace(first, second, 1)
    return name.replace(second, first, 1) if name.startswith(second) else name


def spoil_model(fault: str | None, chunks: list[Any]) -> None:
    """Changes the built model: a layer that does nothing, norms that are not reduced."""
    for chunk in chunks:
        for layer in chunk.decoder.layers:
            if fault == "layer_dropped" and layer.layer_number == _LAYER + 1:
                layer.forward = _pass_through
        for name, parameter in chunk.named_parameters():
            if fault == "norm_gradients_not_reduced" and "norm" in name:
                parameter.sequence_parallel = False


def _pass_through(hidden_states: torch.Tensor, **_: Any) -> tuple[torch.Tensor, None]:
    return hidden_states, None


class StepFaults:
    """Faults within a step."""

    def __init__(self, config: WorkerConfig, chunks: list[Any]) -> None:
        self.fault = config.options.fault
        self.chunks = chunks

    def step_of_rows(self, step: int) -> int:
        """The step whose rows are read: two steps change places."""
        return step ^ 1 if self.fault == "rows_reordered" else step

    def microbatch(self, batch: Microbatch) -> Microbatch:
        """The microbatch with its loss mask one token late."""
        if self.fault != "mask_shifted":
            return batch
        weights = batch.weights.roll(1, dims=1)
        weights[:, 0] = 0
        return batch._replace(weights=weights)

    def places(self, tokens: int, places: torch.Tensor) -> torch.Tensor:
        """Tokens of this rank: consecutive ones, though the attention counts on both ends."""
        if self.fault != "context_scrambled":
            return places
        first = parallel_state.get_context_parallel_rank() * len(places)
        return torch.arange(first, first + len(places))

    def loss(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss whose gradient is taken: divided by CP once more, or summed over DP."""
        if self.fault == "loss_group":
            return loss / parallel_state.get_context_parallel_world_size()
        if self.fault == "loss_summed":
            return loss * parallel_state.get_data_parallel_world_size()
        return loss

    def before_microbatch(self) -> None:
        """Gradients so far, kept in bfloat16."""
        if self.fault == "bf16_gradients":
            for gradients in self._buffers():
                gradients.copy_(gradients.bfloat16())

    def before_update(self) -> None:
        """One expert's gradient is lost."""
        if self.fault != "expert_frozen":
            return
        for chunk in self.chunks:
            for layer in _model_of(chunk).decoder.layers:
                for expert in _experts_here(layer):
                    for parameter in expert.parameters():
                        parameter.main_grad.zero_()

    def _buffers(self) -> list[torch.Tensor]:
        return [
            buffer.grad_data
            for chunk in self.chunks
            for buffer in [*chunk.buffers, *chunk.expert_parallel_buffers]
        ]


def _experts_here(layer: Any) -> list[Any]:
    """The frozen expert of a layer, where this rank has it."""
    indices = getattr(layer.mlp, "local_expert_indices", [])
    if _EXPERT not in indices:
        return []
    return [layer.mlp.experts.local_experts[indices.index(_EXPERT)]]


def _model_of(chunk: Any) -> Any:
    while hasattr(chunk, "module"):
        chunk = chunk.module
    return chunk
