"""The hidden truth of one virtual cluster: efficiencies, overheads, noise."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from attune.virtual.draws import generator


def _term(nominal: float, spread: float, highest: float = np.inf) -> Any:
    """A term with its middle value, the spread of its logarithm, and its upper end."""
    return field(default=nominal, metadata={"spread": spread, "highest": highest})


@dataclass(frozen=True, kw_only=True, slots=True)
class Hidden:
    """Terms that a search does not see; the defaults are the middle of what is drawn.

    Middle values: fitted ranges of published H100, H200 and A100 runs (efficiencies, links,
    host), Megatron-Bridge's measured effects (overlap, recompute, offload), and the GLM-4.5
    recipe on 128 H200 for imbalance and fragmentation.
    """

    gemm: float = _term(0.68, 0.08, 0.92)
    """Plateau of dense matrix products, share of peak."""
    gemm_half_rows: float = _term(160.0, 0.25)
    """Rows of a product at which half of the plateau is reached."""
    gemm_half_depth: float = _term(140.0, 0.25)
    """Inner and outer size at which half of the plateau is reached."""
    grouped: float = _term(0.40, 0.12, 0.85)
    """Plateau of grouped (expert) matrix products."""
    grouped_half_rows: float = _term(210.0, 0.3)
    attention: float = _term(0.50, 0.12, 0.8)
    """Plateau of the attention core, forward."""
    attention_backward: float = _term(0.40, 0.12, 0.7)
    memory: float = _term(0.68, 0.08, 0.92)
    """Share of device memory bandwidth that elementwise kernels reach."""
    elementwise: float = _term(1.6, 0.15)
    """Traffic of elementwise kernels over the least possible."""
    node_link: float = _term(0.68, 0.12, 0.95)
    """Share of the node link's bandwidth that collectives reach."""
    network: float = _term(0.78, 0.10, 0.95)
    """Share of the network's bandwidth that collectives reach."""
    all_to_all: float = _term(0.84, 0.10, 1.0)
    """All-to-all against a ring on the same links."""
    contention: float = _term(0.08, 0.35)
    """Loss of network bandwidth for each doubling of the nodes in a group."""
    crowding: float = _term(0.08, 0.4)
    """Slowdown of network traffic when expert and pipeline traffic share the links."""
    latency: float = _term(1.3, 0.2)
    """Latency of a collective over the data sheet's."""
    kernel_us: float = _term(12.0, 0.2)
    """Host time to launch a kernel."""
    microbatch_us: float = _term(450.0, 0.25)
    """Host time of the schedule, per pass of a chunk."""
    step_ms: float = _term(60.0, 0.3)
    """Host time per step: data, logging, zeroing of gradients."""
    imbalance: float = _term(0.80, 0.14)
    """Spread of the popularity of experts under natural routing."""
    straggling: float = _term(0.012, 0.4)
    """Spread of the nodes' speed."""
    expert_hiding: float = _term(0.62, 0.12, 0.9)
    """Share of the all-to-all that the expert overlap hides."""
    tensor_hiding: float = _term(0.50, 0.2, 0.85)
    """Share of tensor-parallel traffic that its overlap hides."""
    shared_hiding: float = _term(0.70, 0.2, 0.95)
    """Share of the shared experts that hides behind the all-to-all."""
    data_hiding: float = _term(0.80, 0.12, 0.97)
    """Share of the data-parallel traffic that its overlap can hide."""
    overlap_toll: float = _term(0.035, 0.4)
    """Slowdown of compute that shares the device with hidden traffic."""
    context_exposed: float = _term(0.12, 0.3, 0.6)
    """Share of the context-parallel exchange that is never hidden."""
    context_loss: float = _term(0.06, 0.3)
    """Loss of the attention core for each doubling of CP: smaller blocks, uneven halves."""
    blocking: float = _term(0.35, 0.3, 1.0)
    """Share of a pipeline send that blocks the sender (without interleaving)."""
    graph_saving: float = _term(0.80, 0.08, 0.95)
    """Share of host launches that CUDA graphs save in dense layers."""
    optimizer_bytes: float = _term(46.0, 0.15)
    """Bytes moved per local parameter by the optimizer step."""
    host_adam_rate: float = _term(0.68e9, 0.2)
    """Parameters per second and rank of the optimizer on the host."""
    host_link_gbps: float = _term(28.0, 0.15)
    """GB/s between device and host, per GPU, with all GPUs of a node at it."""
    cell: float = _term(0.05, 0.3)
    """Spread of kernel choice by (TP, rows of the product)."""
    link_cell: float = _term(0.07, 0.3)
    """Spread of protocol choice by (group size, dispatcher)."""
    saved: float = _term(1.01, 0.015)
    """Saved activations over the formula."""
    transient: float = _term(1.10, 0.10)
    """Temporary buffers over the formula."""
    memory_imbalance: float = _term(0.45, 0.12)
    """Share of the imbalance that stays with one rank over layers."""
    fragmentation: float = _term(0.075, 0.15)
    """Reserved but unused memory, share of the dynamic part."""
    fragmentation_interleaved: float = _term(0.22, 0.06)
    """The same with interleaving, whose chunks die out of order."""
    context_gib: float = _term(0.65, 0.1)
    """Driver context and libraries."""
    communicator_gib: float = _term(0.16, 0.15)
    """Buffers of one communicator."""
    dispatch_gib: float = _term(1.4, 0.15)
    """Buffers of the flex dispatcher, outside the allocator."""
    graph_gib: float = _term(0.35, 0.2)
    """Pools of CUDA graphs, per layer of a stage."""
    run_noise: float = _term(0.014, 0.15, 0.02)
    """Spread between runs of one layout."""
    step_noise: float = _term(0.013, 0.15, 0.02)
    """Spread between steps of one run."""


_STEADY = ("run_noise", "step_noise", "saved", "context_gib", "communicator_gib")


def draw_hidden(kind: str, seed: int) -> Hidden:
    """The hidden terms of a virtual cluster.

    `near` and `adversarial` draw each term log-normally by its spread; `far` draws it up to a
    factor of two off, memory and noise excepted.
    """
    values = {}
    for item in fields(Hidden):
        random = generator("hidden", kind, seed, item.name)
        spread = item.metadata["spread"]
        shift = spread * float(np.clip(random.normal(), -2.2, 2.2))
        if kind == "far" and spread > 0.07 and not _is_memory(item.name):
            shift = float(random.uniform(-1, 1)) * np.log(2)
        values[item.name] = float(
            min(float(str(item.default)) * np.exp(shift), item.metadata["highest"])
        )
    return Hidden(**values)


def _is_memory(name: str) -> bool:
    memory = ("transient", "memory_imbalance", "fragmentation", "fragmentation_interleaved")
    return name in _STEADY or name in memory or name.endswith("_gib")
