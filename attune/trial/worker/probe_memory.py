"""One rank of a large layout alone: fake collectives, real tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.testing._internal.distributed.fake_pg import FakeStore

from attune.rows.feed import Feed
from attune.trial.probe import MemoryProbe
from attune.trial.result import HeldPart
from attune.trial.worker.config import WorkerConfig
from attune.trial.worker.model import build_chunks, transformer_config
from attune.trial.worker.optimization import build_optimization
from attune.trial.worker.progress import Progress
from attune.trial.worker.training import Training
from attune.trial.worker.weights import initialize_weights


def join_fake_group(probe: MemoryProbe) -> None:
    """Makes this process one rank of a world whose other ranks do not exist.

    Collectives return at once: gathered parts are copies of this rank's own, received
    activations are what the memory held.
    """
    torch.distributed.init_process_group(
        "fake", store=FakeStore(), rank=probe.rank, world_size=probe.world
    )


def probe_memory(
    config: WorkerConfig,
    probe: MemoryProbe,
    feed: Feed,
    device: torch.device,
    progress: Progress,
) -> None:
    """Builds this rank and trains its steps; losses mean nothing and are not looked at."""
    progress.enter("build")
    transformer = transformer_config(config)
    if config.model.experts is not None:
        _route_evenly()
    chunks = build_chunks(config, transformer)
    initialize_weights(chunks, config.model, config.workload.seed)
    training = Training(config, feed, build_optimization(config, transformer, chunks), device)
    for step in range(probe.steps):
        done = training.step(step, progress)
        progress.write_step(done.model_copy(update={"loss": math.nan}), 0.0)
    progress.log_held(held_bytes(training, device))
    progress.enter("end")


def held_bytes(training: Training, device: torch.device) -> dict[HeldPart, int]:
    """Bytes of this rank's weights, gradients and optimizer on the device, each storage once."""
    chunks, seen = training.chunks, set[int]()
    buffers = [b for c in chunks for b in (*c.buffers, *c.expert_parallel_buffers)]
    weights = [p for c in chunks for p in c.parameters()]
    gradients = [buffer.grad_data for buffer in buffers]
    gradients += [p.grad for p in weights if p.grad is not None]
    return {
        "weights": _bytes(weights, device, seen),
        "gradients": _bytes(gradients, device, seen),
        "optimizer": _bytes(_optimizer_tensors(training.optimizer), device, seen),
    }


def _optimizer_tensors(optimizer: Any) -> Iterator[torch.Tensor]:
    """What the optimizers inside hold: copies of their parameters, and state."""
    for one in getattr(optimizer, "chained_optimizers", [optimizer]):
        inner = one.optimizer
        for group in inner.param_groups:
            yield from group["params"]
        for state in inner.state.values():
            yield from (value for value in state.values() if torch.is_tensor(value))


def _bytes(tensors: Iterable[torch.Tensor], device: torch.device, seen: set[int]) -> int:
    """Size of the storages of `tensors` that are not among those seen, which they join."""
    size = 0
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if tensor.device.type == device.type and storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            size += storage.nbytes()
    return size


def _route_evenly() -> None:
    """Has every router send its tokens to all experts in turn.

    Without its peers, a rank would take as many tokens from each of them as it keeps itself, and
    what a router makes of arbitrary activations is no routing.
    """
    from megatron.core.transformer.moe.router import TopKRouter

    routing = TopKRouter.routing

    def in_turn(self: Any, logits: torch.Tensor, *arguments: Any, **named: Any) -> Any:
        return routing(self, _next_experts(logits, self.topk), *arguments, **named)

    TopKRouter.routing = in_turn


def _next_experts(logits: torch.Tensor, top_k: int) -> torch.Tensor:
    """Logits [..., experts] whose top k are the next k experts, token by token.

    They stay a function of those given, so that the backward pass is the same.
    """
    experts = logits.shape[-1]
    tokens = torch.arange(logits.numel() // experts, device=logits.device)[:, None]
    place = (torch.arange(experts, device=logits.device)[None, :] - tokens * top_k) % experts
    # Far enough apart that an expert's bias changes no order.
    even = (-0.1 * place).to(logits.dtype).view_as(logits)
    return logits.nan_to_num(0.0, 0.0, 0.0) * 0.0 + even
