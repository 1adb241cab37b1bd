"""What the worker cannot train, said in one line before anything is built."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from attune.errors import LayoutError
from attune.trial.worker.config import WorkerConfig

LOCAL_RECOMPUTE = ("core_attn", "mlp", "moe", "shared_experts")
"""Modules that selective recompute can take without Transformer Engine (megatron-core 0.16)."""


HELD: dict[str, Any] = {
    "optimizer_offload": 0.0,
    "overlap_experts": False,
    "cuda_graphs": False,
    "delayed_weight_gradients": False,
}
"""Dimensions of a search space that the worker has at one value only, yet."""


def refuse_unsupported(config: WorkerConfig, world: int, transformer_engine: bool) -> None:
    """Raises for the first reason why `world` processes cannot train `config`.

    Raises:
        LayoutError: the layout, model or workload needs what the worker does not have.
    """
    reason = find_reason(config, world, transformer_engine)
    if reason:
        raise LayoutError(reason)


def find_reason(config: WorkerConfig, world: int, transformer_engine: bool) -> str | None:
    """Why `world` processes cannot train `config`; None where they can."""
    reason = next(_reasons(config, world, transformer_engine), None)
    return f"the worker {reason}" if reason else None


def find_model_reason(config: WorkerConfig) -> str | None:
    """Why the worker can train no layout of the model and workload of `config`; None if it can."""
    reason = next(chain(_model(config), _workload(config)), None)
    return f"the worker {reason}" if reason else None


def _reasons(config: WorkerConfig, world: int, transformer_engine: bool) -> Iterator[str]:
    yield from _grid(config, world)
    yield from _model(config)
    yield from _workload(config)
    yield from _layout(config)
    if config.device == "cpu":
        yield from _on_cpu(config)
    if not transformer_engine:
        yield from _without_transformer_engine(config)


def _grid(config: WorkerConfig, world: int) -> Iterator[str]:
    layout, batch = config.layout, config.workload.global_batch
    model_parallel = layout.tp * layout.pp * layout.cp
    expert_parallel = layout.etp * layout.ep * layout.pp
    if world % model_parallel:
        yield f"has {world} processes, which TP x PP x CP = {model_parallel} does not divide"
    elif world % expert_parallel:
        yield f"has {world} processes, which ETP x EP x PP = {expert_parallel} does not divide"
    elif batch % (layout.rows_per_microbatch * layout.dp(world)):
        yield (
            f"cannot cut a global batch of {batch} rows into microbatches of "
            f"{layout.rows_per_microbatch} on {layout.dp(world)} data-parallel ranks"
        )


def _model(config: WorkerConfig) -> Iterator[str]:
    model = config.model
    if model.indexer:
        yield f"does not support the sparse-attention indexer yet ({model.id})"
    if model.latent and model.rope_scaling and model.rope_scaling.kind != "yarn":
        yield f"stretches the positions of latent attention by yarn alone ({model.id})"
    if model.sinks or model.window:
        yield f"does not support attention sinks and sliding windows yet ({model.id})"
    if model.peculiarities:
        yield f"does not support `{'`, `'.join(model.peculiarities)}` of {model.id} yet"
    if model.output_bias != model.mlp_bias:
        yield f"needs output_bias and mlp_bias alike, as Megatron has one switch ({model.id})"


def _workload(config: WorkerConfig) -> Iterator[str]:
    workload = config.workload
    if workload.precision not in ("bf16", "fp32"):
        yield f"trains in bf16 or fp32, but the workload asks for {workload.precision}"


def _layout(config: WorkerConfig) -> Iterator[str]:
    layout = config.layout
    if config.model.latent and layout.tp > 1 and not layout.sequence_parallel:
        yield (
            f"needs sequence parallelism for latent attention on TP {layout.tp}: without it "
            "megatron-core loses gradients of the rotated keys"
        )
    if layout.cp > 1 and config.workload.row_tokens % (2 * layout.cp):
        yield (
            f"cuts a row into 2 x CP = {2 * layout.cp} chunks, which its "
            f"{config.workload.row_tokens} tokens do not give"
        )
    for name in (
        "overlap_experts",
        "overlap_tensor",
        "cuda_graphs",
        "delayed_weight_gradients",
        "precision_aware_optimizer",
        "optimizer_offload",
    ):
        if getattr(layout, name):
            yield f"does not support `{name}` yet"
    if layout.dispatcher == "flex":
        yield "does not support the flex dispatcher yet; use alltoall"


def _on_cpu(config: WorkerConfig) -> Iterator[str]:
    layout = config.layout
    if layout.etp > 1:
        yield f"needs ETP 1 on cpu, as gloo gathers equal sizes only (etp={layout.etp})"
    if layout.overlap_shared_experts:
        yield "cannot overlap shared experts on cpu: it takes CUDA streams"
    if config.workload.routing == "balanced":
        yield "cannot force balanced routing on cpu: it takes a CUDA random state"


def _without_transformer_engine(config: WorkerConfig) -> Iterator[str]:
    foreign = sorted(set(config.layout.recompute_modules) - set(LOCAL_RECOMPUTE))
    if config.layout.recompute == "selective" and foreign:
        yield f"needs Transformer Engine to recompute {', '.join(foreign)}"
