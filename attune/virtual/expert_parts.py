"""Parts of a mixture-of-experts layer: router, dispatch, experts, shared experts."""

from __future__ import annotations

import numpy as np

from attune.catalog.model import Experts
from attune.layout.table import DISPATCHERS, Floats
from attune.virtual.parts import Part, activation_time, attention_parts, shared_expert
from attune.virtual.setting import Setting

_ALLGATHER, _FLEX = DISPATCHERS.index("allgather"), DISPATCHERS.index("flex")


def expert_layer_parts(setting: Setting) -> dict[str, Part]:
    """Parts of a layer with routed experts, by name."""
    parts = attention_parts(setting)
    experts = setting.model.experts
    assert experts is not None
    parts["router"] = _router(setting, experts)
    parts["dispatch"] = _dispatch(setting, experts)
    parts["experts"] = _experts(setting, experts)
    parts["moe_act"] = _activation(setting, experts)
    if experts.shared_ffn:
        parts["shared_experts"] = _shared(setting, experts, parts["dispatch"])
    return parts


def _router(setting: Setting, experts: Experts) -> Part:
    """Scores, softmax, top-k and map: about 24 bytes a score (memory_model_notes 1.2)."""
    tokens = setting.sizes.own_tokens
    forward, backward = setting.linear(tokens, setting.model.hidden, experts.count)
    scores = setting.kernels.elementwise(24.0 * tokens * experts.count)
    zero = np.zeros_like(tokens)
    return Part(
        forward=forward + scores,
        backward=backward + scores,
        exposed=zero,
        exposed_backward=zero,
        launches=zero + 14,
    )


def _dispatch(setting: Setting, experts: Experts) -> Part:
    """Permutation, exchange, and back; EP overlap hides most of the exchange."""
    table = setting.table
    values = setting.sizes.routed_tokens * setting.busiest * setting.model.hidden
    flex = table.dispatcher == _FLEX
    # Every rank of an all-gather picks its tokens out of everybody's.
    everyone = setting.sizes.own_tokens * setting.sizes.ep * setting.sizes.etp
    picked = np.where(table.dispatcher == _ALLGATHER, everyone, 0.0) * setting.model.hidden
    permuting = setting.kernels.elementwise(np.where(flex, 9.0, 14.0) * values + 6.0 * picked)
    shown = np.where(table.overlap_experts, 1 - setting.hidden.expert_hiding, 1.0)
    later = np.where(table.overlap_experts & table.delayed_weight_gradients, 0.85, 1.0)
    exchange = 2 * _exchange(setting, experts)
    toll = np.where(table.overlap_shared_experts, 1 + setting.hidden.overlap_toll, 1.0)
    launches = np.where(flex, 14.0, np.where(table.dispatcher == _ALLGATHER, 18.0, 24.0))
    return Part(
        forward=permuting,
        backward=1.2 * permuting,
        exposed=exchange * shown * toll,
        exposed_backward=exchange * shown * toll * later,
        launches=launches,
    )


def _exchange(setting: Setting, experts: Experts) -> Floats:
    """One way of the expert traffic: dispatch or combine, the expert tensor group included."""
    sizes, network, table = setting.sizes, setting.network, setting.table
    width = setting.model.hidden * setting.value_bytes
    group = network.group(sizes.ep, sizes.etp)
    away = (group.nodes - 1) / group.nodes
    # The busiest rank receives more than it sends; links carry the mean of both.
    sent = sizes.routed_tokens / sizes.etp * (1 + setting.busiest) / 2 * width
    plain = network.all_to_all(sent, group, away)
    # A flex dispatcher sends a token once to a node, however many of its experts are there.
    nodes_hit = group.nodes * (1 - (1 - 1 / group.nodes) ** experts.top_k)
    once = network.all_to_all(0.85 * sent, group, away * np.minimum(nodes_hit / experts.top_k, 1))
    everyone = network.group(sizes.ep * sizes.etp, np.ones_like(sizes.ep))
    # Gathered as they are, scattered back in float32: three halves of a pair in bfloat16.
    gathered = 1.5 * network.ring(sizes.own_tokens * sizes.ep * sizes.etp * width, everyone)
    chosen = np.where(table.dispatcher == _FLEX, once, plain)
    chosen = np.where(table.dispatcher == _ALLGATHER, gathered, chosen)
    inner = network.ring(sizes.routed_tokens * width, network.group(sizes.etp, sizes.etp * 0 + 1))
    inner = np.where(table.dispatcher == _ALLGATHER, 0.0, inner)
    crowded = (group.nodes > 1) & (sizes.pp > 1)
    factor = setting.link_choice * np.where(crowded, 1 + setting.hidden.crowding, 1.0)
    seconds: Floats = (chosen + inner) * factor
    return seconds


def _experts(setting: Setting, experts: Experts) -> Part:
    sizes, kernels, hidden = setting.sizes, setting.kernels, float(setting.model.hidden)
    rows = sizes.routed_tokens * setting.busiest
    local = np.maximum(experts.count / sizes.ep, 1)
    out = experts.ffn / sizes.etp
    wide = setting.wide * out
    forward = kernels.grouped(rows, hidden, wide, local) + kernels.grouped(rows, out, hidden, local)
    inputs = kernels.grouped(rows, wide, hidden, local) + kernels.grouped(rows, hidden, out, local)
    each = rows / local
    weights = kernels.grouped(hidden * local, each, wide, local)
    weights = weights + kernels.grouped(out * local, each, hidden, local)
    toll = np.where(setting.table.overlap_experts, 1 + setting.hidden.overlap_toll, 1.0)
    toll = toll * setting.kernel_choice
    zero = np.zeros_like(rows)
    return Part(
        forward=forward * toll,
        backward=(inputs + weights) * toll + setting.accumulation(local * hidden * (wide + out)),
        exposed=zero,
        exposed_backward=zero,
        launches=zero + 8,
    )


def _activation(setting: Setting, experts: Experts) -> Part:
    sizes = setting.sizes
    values = sizes.routed_tokens * setting.busiest * experts.ffn / sizes.etp
    forward = activation_time(setting, values)
    zero = np.zeros_like(values)
    return Part(
        forward=forward,
        backward=1.6 * forward,
        exposed=zero,
        exposed_backward=zero,
        launches=zero + 2,
    )


def _shared(setting: Setting, experts: Experts, dispatch: Part) -> Part:
    """The shared experts; overlapped, they hide behind the exchange while it lasts."""
    part = shared_expert(setting, experts.shared_ffn)
    on = setting.table.overlap_shared_experts
    share = setting.hidden.shared_hiding
    forward = part.forward + part.exposed
    backward = part.backward + part.exposed_backward
    saved = np.where(on, share * np.minimum(forward, dispatch.exposed), 0.0)
    saved_backward = np.where(on, share * np.minimum(backward, dispatch.exposed_backward), 0.0)
    return Part(
        forward=part.forward * (1 - saved / forward),
        backward=part.backward * (1 - saved_backward / backward),
        exposed=part.exposed * (1 - saved / forward),
        exposed_backward=part.exposed_backward * (1 - saved_backward / backward),
        launches=part.launches,
    )
