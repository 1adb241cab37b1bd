"""What megatron-core 0.16 needs in order to train on CPU over gloo.

Megatron-core runs on CPU but for the places below, where it takes a CUDA device for granted.
Each function removes one of them; nothing here is called when a CUDA device trains.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


def prepare_megatron_for_cpu() -> None:
    """Removes every obstacle; call once, before a model is built."""
    _current_device_is_cpu()
    _literal_cuda_means_cpu()
    _tensors_stay()
    _tensor_types_read_as_cuda()
    _no_random_state_of_a_device()
    _expert_splits_are_on_the_host()
    _stages_exchange_by_direction()


def _current_device_is_cpu() -> None:
    """Buffers, weights and pipeline messages are made on `torch.cuda.current_device()`."""
    cpu = torch.device("cpu")
    torch.cuda.current_device = lambda: cpu


def _literal_cuda_means_cpu() -> None:
    """The schedules, the optimizer and gradient clipping say device='cuda' outright."""
    torch.zeros = _on_cpu(torch.zeros)
    torch.tensor = _on_cpu(torch.tensor)


def _on_cpu(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @functools.wraps(make)
    def made(*arguments: Any, **named: Any) -> torch.Tensor:
        if named.get("device") == "cuda":
            named["device"] = "cpu"
        # Positions of a context-parallel rank are copied from pinned memory.
        named.pop("pin_memory", None)
        return make(*arguments, **named)

    return made


def _tensors_stay() -> None:
    """Tied embeddings of the first and last stage are moved by `cuda()` before they are summed."""
    torch.Tensor.cuda = lambda self, *_, **__: self


def _tensor_types_read_as_cuda() -> None:
    """The optimizer sorts parameters by `type()` and knows only torch.cuda.FloatTensor etc."""
    real = torch.Tensor.type

    def type_(self: torch.Tensor, *arguments: Any, **named: Any) -> Any:
        answer = real(self, *arguments, **named)
        return answer.replace("torch.", "torch.cuda.", 1) if isinstance(answer, str) else answer

    torch.Tensor.type = type_


class _NoTracker:
    """Stands for the tracker of CUDA random states: nothing here is random (no dropout)."""

    def fork(self, name: str = "") -> AbstractContextManager[None]:
        return nullcontext()

    def get_states(self) -> dict[str, torch.Tensor]:
        return {}

    def set_states(self, states: dict[str, torch.Tensor]) -> None:
        pass


def _no_random_state_of_a_device() -> None:
    """Initialization, dropout and recompute save and restore the state of a CUDA generator."""
    from megatron.core.tensor_parallel import random

    random._CUDA_RNG_STATE_TRACKER = _NoTracker()
    random._CUDA_RNG_STATE_TRACKER_INITIALIZED = True
    random._get_cuda_rng_state = lambda *_, **__: torch.empty(0, dtype=torch.uint8)
    random._set_cuda_rng_state = lambda *_, **__: None


def _expert_splits_are_on_the_host() -> None:
    """The all-to-all dispatcher copies its split sizes to the host on a CUDA stream."""
    from megatron.core.transformer.moe.token_dispatcher import MoEAlltoAllTokenDispatcher

    def splits_as_numpy(
        self: Any, point: str, tokens_per_expert: torch.Tensor | None = None
    ) -> torch.Tensor | None:
        for name in ("input_splits", "output_splits", "output_splits_tp"):
            splits = getattr(self, name)
            if torch.is_tensor(splits):
                setattr(self, name, splits.numpy())
        return tokens_per_expert

    MoEAlltoAllTokenDispatcher.cuda_dtoh_stream = object()
    MoEAlltoAllTokenDispatcher._maybe_dtoh_and_synchronize = splits_as_numpy


def _stages_exchange_by_direction() -> None:
    """Two stages with chunks send activations and gradients to each other over one connection.

    NCCL keeps them apart by its streams; gloo matches messages by their order alone, and would
    take an activation for a gradient. A tag for each direction keeps them apart.
    """
    from megatron.core.pipeline_parallel import p2p_communication

    p2p_communication._batched_p2p_ops = _tagged_exchange


def _tagged_exchange(
    *,
    tensor_send_prev: torch.Tensor | None,
    tensor_recv_prev: torch.Tensor | None,
    tensor_send_next: torch.Tensor | None,
    tensor_recv_next: torch.Tensor | None,
    group: Any,
    prev_pipeline_rank: int,
    next_pipeline_rank: int,
) -> list[Any]:
    activation, gradient = 1, 2
    receive, send = torch.distributed.irecv, torch.distributed.isend
    exchanges = (
        (send, tensor_send_prev, prev_pipeline_rank, gradient),
        (receive, tensor_recv_prev, prev_pipeline_rank, activation),
        (send, tensor_send_next, next_pipeline_rank, activation),
        (receive, tensor_recv_next, next_pipeline_rank, gradient),
    )
    return [
        act(tensor, peer, group=group, tag=tag)
        for act, tensor, peer, tag in exchanges
        if tensor is not None
    ]
