"""Times single layers, and the head with the loss, at the layout's degrees."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median, quantiles
from typing import Any

import torch

from attune.layout import Layout
from attune.trial.probe import LayerKind, LayerProbe
from attune.trial.result import LayerPass
from attune.trial.worker.config import WorkerConfig
from attune.trial.worker.model import DTYPES, build_part, transformer_config
from attune.trial.worker.optimization import accumulate_gradients
from attune.trial.worker.progress import Progress
from attune.trial.worker.training import causal_mask
from attune.trial.worker.weights import initialize_weights

_WARM_UP = 2
"""Passes before those that are timed: the first compiles kernels and grows the allocator."""
_OF_EXPERTS = ("moe", "moe_act", "shared_experts")

Forward = Callable[[], torch.Tensor]


def probe_layers(
    config: WorkerConfig, probe: LayerProbe, device: torch.device, progress: Progress
) -> None:
    """Builds, times and frees each kind in turn; the slowest rank's times are logged by rank 0."""
    for kind in probe.kinds:
        progress.enter("build")
        number = 1 if kind == "head" else probe.layers
        part = _config_of(config, kind, number)
        forward = _head(part, device) if kind == "head" else _layers(part, device)
        progress.enter("forward")
        layer = _timed(kind, forward, probe.repeats, number, device)
        if progress.rank == 0:
            progress.log_layer(layer)
    progress.enter("end")


def _config_of(config: WorkerConfig, kind: LayerKind, layers: int) -> WorkerConfig:
    """The configuration of a model that has layers of one kind alone."""
    dense = None if config.model.experts is None else layers if kind != "moe" else 0
    model = config.model.model_copy(
        update={
            "layers": layers,
            "dense_layers": dense,
            "moe_layers": None,
            # A last stage has a head of its own, whatever it is tied to.
            "tied_embeddings": False,
        }
    )
    layout = config.layout if kind == "moe" else _without_experts(config.layout)
    return config.model_copy(update={"model": model, "layout": layout})


def _without_experts(layout: Layout) -> Layout:
    """The layout without recompute of modules that a dense layer has not."""
    modules = tuple(name for name in layout.recompute_modules if name not in _OF_EXPERTS)
    if layout.recompute_modules and not modules:
        return replace(layout, recompute="none", recompute_modules=())
    return replace(layout, recompute_modules=modules)


def _built(config: WorkerConfig, *, last: bool) -> tuple[Any, Any]:
    """A stage in the middle of a pipeline, or its last one; and the same with its gradients."""
    transformer = transformer_config(config)
    chunk = build_part(config, transformer, None, first=False, last=last)
    initialize_weights([chunk], config.model, config.workload.seed)
    if transformer.bf16:
        chunk = chunk.bfloat16()
    return chunk, accumulate_gradients(config, transformer, chunk)


def _layers(config: WorkerConfig, device: torch.device) -> Forward:
    chunk, wrapped = _built(config, last=False)
    hidden = _hidden(config, device)
    tokens = config.workload.row_tokens
    positions = torch.arange(tokens // config.layout.cp, device=device).unsqueeze(0)
    mask = causal_mask(tokens) if device.type == "cpu" else None

    def forward() -> torch.Tensor:
        chunk.set_input_tensor(hidden)
        output: torch.Tensor = wrapped(None, positions, mask)
        return output

    return forward


def _head(config: WorkerConfig, device: torch.device) -> Forward:
    chunk, _ = _built(config, last=True)
    hidden = _hidden(config, device)
    tokens = config.workload.row_tokens // config.layout.cp
    shape = (config.layout.rows_per_microbatch, tokens)
    labels = torch.randint(config.model.vocabulary, shape, device=device)

    def forward() -> torch.Tensor:
        logits, _ = chunk.output_layer(chunk.decoder.final_layernorm(hidden))
        loss: torch.Tensor = chunk.compute_language_model_loss(labels, logits)
        return loss.float()

    return forward


def _hidden(config: WorkerConfig, device: torch.device) -> torch.Tensor:
    """What another stage would send: [tokens of a rank, rows, hidden]."""
    layout, model = config.layout, config.model
    parts = layout.cp * (layout.tp if layout.sequence_parallel else 1)
    shape = (config.workload.row_tokens // parts, layout.rows_per_microbatch, model.hidden)
    dtype = DTYPES[config.workload.precision]
    return torch.randn(shape, dtype=dtype, device=device, requires_grad=True)


def _timed(
    kind: LayerKind, forward: Forward, repeats: int, layers: int, device: torch.device
) -> LayerPass:
    """Median times of one layer, those of the slowest rank."""
    marks = []
    for index in range(_WARM_UP + repeats):
        if index == _WARM_UP:
            torch.distributed.barrier()
        started = _mark(device)
        output = forward()
        between = _mark(device)
        backward_step(output)
        marks.append((started, between, _mark(device)))
    if device.type == "cuda":
        torch.cuda.synchronize()
    timed = [(_seconds(a, b), _seconds(b, c)) for a, b, c in marks[_WARM_UP:]]
    middle = [median(one) / layers for one in zip(*timed)]
    slowest = torch.tensor(middle, dtype=torch.float64, device=device)
    torch.distributed.all_reduce(slowest, op=torch.distributed.ReduceOp.MAX)
    forward_s, backward_s = slowest.tolist()
    return LayerPass(
        kind=kind,
        forward_s=forward_s,
        backward_s=backward_s,
        spread_percent=_spread_percent([sum(one) for one in timed]),
    )


def backward_step(output: torch.Tensor) -> None:
    """The backward pass; the name is what `failure.phase_of` looks for in a traceback."""
    output.backward(torch.ones_like(output))


def _spread_percent(seconds: list[float]) -> float:
    if len(seconds) < 2:
        return 0.0
    low, middle, high = quantiles(seconds, n=4, method="inclusive")
    return 100 * (high - low) / middle


def _mark(device: torch.device) -> Any:
    if device.type == "cpu":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _seconds(start: Any, end: Any) -> float:
    if isinstance(start, float):
        return float(end - start)
    return float(start.elapsed_time(end)) / 1e3
