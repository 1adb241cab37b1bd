"""Time of one layer of each kind, and of the head, per microbatch, by part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attune.estimate import linears
from attune.estimate.attention import core_time, fused_softmax, head_sizes, key_heads
from attune.estimate.collectives import context_exchange, tensor_exchange, token_exchange
from attune.estimate.columns import Columns
from attune.estimate.machine import Machine
from attune.estimate.operations import Passes, linear
from attune.estimate.stack import Stack
from attune.layout.table import Floats

STAGE_PARTS = ("compute", "attention", "tensor", "context", "expert", "host")
_KERNELS = {"flash": 22.0, "unfused": 26.0, "tensor": 4.0, "moe": 45.0, "softmax": 14.0}
"""Kernels launched per layer pass (counted in megatron-core's forward)."""
_EXPOSED_EXPERTS = 0.5
"""Share of the experts' exchange that 1F1B overlap leaves visible: of Qwen3-30B on 16 H100 it hid
37 % under HybridEP (24.7 s became 21.0) and about 40 % under all-to-all (41.3 s became 31.3)."""
_LEAST_EXPOSED = 0.05
"""Share of a hidden exchange that stays visible."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerTime:
    """Seconds per microbatch, forward and backward together, recompute included."""

    parts: dict[str, Floats]
    """[n] by `STAGE_PARTS`."""
    backward: Floats
    """[n] the backward pass alone, behind which gradients can be reduced."""
    forward: Floats
    """[n] the forward pass alone."""

    @property
    def seconds(self) -> Floats:
        """[n] the sum of the parts."""
        total: Floats = np.sum(list(self.parts.values()), axis=0)
        return total


@dataclass(frozen=True, kw_only=True, slots=True)
class _Work:
    """What one layer does in each pass."""

    compute: Passes
    attention: Passes
    tensor: Floats
    context: Passes
    expert: Passes
    kernels: Floats


def layer_times(
    columns: Columns, machine: Machine, stack: Stack
) -> tuple[LayerTime, LayerTime, LayerTime]:
    """Layer with a dense MLP, MoE layer, head with loss."""
    attention = linears.attention_linears(columns, machine)
    attention = attention + linears.attention_elementwise(columns, machine)
    core = core_time(columns, machine, flash=stack.flash)
    tensor = 2 * tensor_exchange(columns, machine)
    context = _context(columns, machine, core)
    kernels = np.where(columns.tp > 1, _KERNELS["tensor"], 0.0)
    kernels = kernels + _KERNELS["flash" if stack.flash else "unfused"]
    if not stack.flash:
        kernels = kernels + np.where(fused_softmax(columns), 0.0, _KERNELS["softmax"])
    none = Passes(np.zeros_like(columns.tp), np.zeros_like(columns.tp))
    mlp = linears.mlp(columns, machine, columns.model.ffn)
    dense = _Work(
        compute=attention + mlp,
        attention=core,
        tensor=tensor,
        context=context,
        expert=none,
        kernels=kernels,
    )
    redone_mlp = mlp.forward * columns.table.recomputes("mlp")
    dense_time = _layer(columns, machine, dense, _graphs(columns, 0.9), redone_mlp, none.forward)
    moe = dense_time
    if columns.model.experts is not None:
        moe = _moe_layer(columns, machine, dense, attention, 0.9 if stack.whole_graphs else 0.54)
    return dense_time, moe, _head(columns, machine, stack)


def _graphs(columns: Columns, saved: float) -> Floats:
    """Host time left when CUDA graphs replay the layer (MoE layers only in part)."""
    return np.where(columns.table.cuda_graphs, 1.0 - saved, 1.0)


def _moe_layer(
    columns: Columns, machine: Machine, dense: _Work, attention: Passes, graphed: float
) -> LayerTime:
    routed = linears.experts(columns, machine)
    exchange = _exchange(columns, machine)
    # Under TP with ETP 1 only attention and shared experts gather their tokens.
    gathers = columns.etp >= columns.tp
    if columns.model.experts and columns.model.experts.shared_ffn:
        gathers = np.ones_like(gathers)
    tensor = dense.tensor * np.where(gathers, 1.0, 0.5)
    work = _Work(
        compute=attention + routed,
        attention=dense.attention,
        tensor=tensor,
        context=dense.context,
        expert=exchange,
        kernels=dense.kernels + _KERNELS["moe"],
    )
    redone = columns.table.recomputes("moe")
    return _layer(
        columns,
        machine,
        work,
        _graphs(columns, graphed),
        routed.forward * redone,
        exchange.forward * redone,
    )


def _layer(
    columns: Columns,
    machine: Machine,
    work: _Work,
    graphs: Floats,
    redone_compute: Floats,
    redone_expert: Floats,
) -> LayerTime:
    """Both passes with host time where it is longer, and what recompute adds."""
    device = Passes(
        work.compute.forward + work.attention.forward,
        work.compute.backward + work.attention.backward,
    )
    device = device + work.context + work.expert + Passes(work.tensor, work.tensor)
    launch = machine.host_kernel_s * work.kernels * graphs
    host = Passes(
        _waiting(machine, device.forward, launch),
        _waiting(machine, device.backward, machine.host_backward * launch),
    )
    again = _full_share(columns)
    scores = columns.table.recomputes("core_attn") * work.attention.forward
    parts = {
        "compute": _both(work.compute, again) + redone_compute,
        "attention": _both(work.attention, again) + scores,
        "tensor": work.tensor * (2 + again + _gathered_again(columns)),
        "context": _both(work.context, again),
        "expert": _both(work.expert, again) + redone_expert,
        "host": _both(host, again),
    }
    return LayerTime(
        parts=parts,
        forward=device.forward + host.forward,
        backward=np.sum(list(parts.values()), axis=0) - device.forward - host.forward,
    )


def _gathered_again(columns: Columns) -> Floats:
    """Exchanges of a pass that sequence parallelism adds: the backward pass gathers the inputs
    of both column-parallel linears again (arXiv 2205.05198, section 4.2.2).

    It runs beside the gradient GEMMs, but takes their multiprocessors and bandwidth: rows of one
    B200 node and of Selene want it whole (chosen after seeing them).
    """
    return np.where(columns.shards > 1, 0.5, 0.0)


def _both(passes: Passes, again: Floats) -> Floats:
    return passes.forward * (1 + again) + passes.backward


def _waiting(machine: Machine, device: Floats, host: Floats) -> Floats:
    """Time beyond the device's own, where the host launches more slowly than it computes."""
    largest = np.maximum(device, host)
    power = machine.sharpness
    smooth = (device / largest) ** power + (host / largest) ** power
    waiting: Floats = largest * smooth ** (1 / power) - device
    return waiting


def _full_share(columns: Columns) -> Floats:
    """Share of the layers whose forward pass runs again."""
    per_chunk = columns.model.layers / (columns.pp * columns.vpp)
    some = np.minimum(columns.full_layers / per_chunk, 1.0)
    return np.where(columns.block, some, np.where(columns.full, 1.0, 0.0))


def _exchange(columns: Columns, machine: Machine) -> Passes:
    """Dispatch and combine in each pass, less what overlap hides."""
    exposed = 2 * token_exchange(columns, machine)
    exposed = exposed * np.where(columns.table.overlap_experts, _EXPOSED_EXPERTS, 1.0)
    shared = linears.shared(columns, machine)
    hides = np.where(columns.table.overlap_shared_experts, 1.0, 0.0)
    return Passes(
        np.maximum(exposed - hides * shared.forward, 0.3 * exposed),
        np.maximum(exposed - hides * shared.backward, 0.3 * exposed),
    )


def _context(columns: Columns, machine: Machine, core: Passes) -> Passes:
    """Keys and values of the ring, hidden behind the attention core where it is long enough."""
    around = context_exchange(columns, machine, columns.width * _keys_and_values(columns))
    exposed = Passes(
        np.maximum(_LEAST_EXPOSED * around, around - core.forward),
        np.maximum(_LEAST_EXPOSED * around, 2 * around - core.backward),
    )
    return exposed.scaled(np.where(columns.cp > 1, 1.0, 0.0))


def _keys_and_values(columns: Columns) -> Floats:
    """Elements per token that other context ranks need; sparse attention sends latent ones."""
    latent, indexer = columns.model.latent, columns.model.indexer
    if indexer is not None:
        sizes = (latent.kv_rank + latent.rope_dim if latent else 0) + indexer.dim
        return np.full_like(columns.tp, float(sizes))
    query, value = head_sizes(columns)
    return key_heads(columns) * (query + value)


def _head(columns: Columns, machine: Machine, stack: Stack) -> LayerTime:
    """Head and loss of a microbatch on the last stage."""
    model, tp, m = columns.model, columns.tp, columns.tokens
    shard = np.ceil(model.vocabulary / (128 * tp)) * 128
    work = linear(columns, machine, m, shard, float(model.hidden), head=True)
    per_logit = 10.0 if stack.loss_copies <= 2 else 18.0
    loss = per_logit * m * shard / machine.memory + 8 * machine.kernel_s
    tensor = np.where(tp > 1, 4 * machine.node_latency_s, 0.0) + tensor_exchange(columns, machine)
    parts = {name: np.zeros_like(tp) for name in STAGE_PARTS}
    parts["compute"] = work.forward + work.backward + loss
    parts["tensor"] = tensor
    forward = work.forward + loss / 2 + tensor / 2
    return LayerTime(parts=parts, forward=forward, backward=parts["compute"] + tensor - forward)
