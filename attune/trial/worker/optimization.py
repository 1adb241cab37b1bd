"""Optimizer, gradient reduction and learning-rate schedule, as Megatron's training builds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from megatron.core.distributed import (
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler
from megatron.core.transformer.module import Float16Module
from megatron.core.transformer.transformer_config import TransformerConfig

from attune.trial.worker.config import WorkerConfig
from attune.trial.worker.model import DTYPES
from attune.trial.worker.weights import is_routed_expert


@dataclass(frozen=True, kw_only=True, slots=True)
class Optimization:
    """What a step needs beside the data."""

    chunks: list[Any]
    """Model chunks, wrapped for data parallelism."""
    optimizer: Any
    schedule: OptimizerParamScheduler


def build_optimization(
    config: WorkerConfig, transformer: TransformerConfig, chunks: list[GPTModel]
) -> Optimization:
    """Wraps the chunks, builds optimizer and schedule, and tells the pipeline about both."""
    _mark_routed_experts(chunks)
    if transformer.bf16:
        chunks = [Float16Module(transformer, chunk) for chunk in chunks]
    wrapped = _wrap(config, transformer, chunks)
    transformer.finalize_model_grads_func = finalize_model_grads
    _tell_overlap(config, transformer, wrapped)
    optimizer = get_megatron_optimizer(
        _optimizer_config(config),
        wrapped,
        # None spares biases and norms the weight decay, as Megatron does; {} spares nothing.
        config_overrides={} if config.options.fault == "decay_on_norms" else None,
        use_gloo_process_groups=False,
    )
    return Optimization(chunks=wrapped, optimizer=optimizer, schedule=_schedule(config, optimizer))


def accumulate_gradients(
    config: WorkerConfig, transformer: TransformerConfig, chunk: GPTModel
) -> DistributedDataParallel:
    """A chunk whose backward pass adds to gradient buffers, as in training; none is reduced."""
    _mark_routed_experts([chunk])
    return _wrap(config, transformer, [chunk])[0]


def _mark_routed_experts(chunks: list[GPTModel]) -> None:
    """Has experts reduced, sharded and clipped over their own data-parallel group.

    With EP 1 megatron-core 0.16 takes them for dense parameters; their group is then another one
    wherever ETP is not TP, and gradients of the tokens of other tensor ranks would be lost.
    """
    for chunk in chunks:
        for name, parameter in chunk.named_parameters():
            if is_routed_expert(name):
                parameter.allreduce = False


def _wrap(
    config: WorkerConfig, transformer: TransformerConfig, chunks: list[Any]
) -> list[DistributedDataParallel]:
    parallel = DistributedDataParallelConfig(
        grad_reduce_in_fp32=config.workload.gradient_precision == "fp32",
        overlap_grad_reduce=config.layout.overlap_gradients,
        overlap_param_gather=config.layout.overlap_parameters,
        use_distributed_optimizer=config.layout.distributed_optimizer,
        check_for_nan_in_grad=False,
    )
    return [
        DistributedDataParallel(transformer, parallel, chunk, disable_bucketing=index > 0)
        for index, chunk in enumerate(chunks)
    ]


def _tell_overlap(config: WorkerConfig, transformer: TransformerConfig, chunks: list[Any]) -> None:
    if not config.layout.overlap_gradients:
        return
    several = len(chunks) > 1
    transformer.no_sync_func = [c.no_sync for c in chunks] if several else chunks[0].no_sync
    transformer.grad_sync_func = (
        [c.start_grad_sync for c in chunks] if several else chunks[0].start_grad_sync
    )


def _optimizer_config(config: WorkerConfig) -> OptimizerConfig:
    values, scale = config.workload.optimization, config.options.learning_rate_scale
    dtype = DTYPES[config.workload.precision]
    return OptimizerConfig(
        optimizer="adam",
        lr=values.learning_rate * scale,
        min_lr=values.min_learning_rate * scale,
        weight_decay=values.weight_decay,
        adam_beta1=values.adam_beta1,
        adam_beta2=values.adam_beta2,
        adam_eps=values.adam_epsilon,
        clip_grad=values.clip_grad,
        bf16=dtype is torch.bfloat16,
        params_dtype=dtype,
        use_distributed_optimizer=config.layout.distributed_optimizer,
        overlap_param_gather=config.layout.overlap_parameters,
    )


def _schedule(config: WorkerConfig, optimizer: Any) -> OptimizerParamScheduler:
    values, steps = config.workload.optimization, config.workload.steps
    scale = config.options.learning_rate_scale
    return OptimizerParamScheduler(
        optimizer,
        init_lr=0.0,
        max_lr=values.learning_rate * scale,
        min_lr=values.min_learning_rate * scale,
        lr_warmup_steps=min(values.warmup_fraction * steps, steps - 1),
        lr_decay_steps=steps,
        lr_decay_style="cosine",
        start_wd=values.weight_decay,
        end_wd=values.weight_decay,
        wd_incr_steps=steps,
        wd_incr_style="constant",
        use_checkpoint_opt_param_scheduler=False,
    )
