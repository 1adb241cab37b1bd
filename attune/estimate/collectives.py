"""Time of collectives by latency and bandwidth over the tiers of the network.

Ranks stand in the order tp, cp, dp, pp (experts: etp, ep within), so a group of n ranks at a
stride crosses nodes when it spans more than one.
"""

from __future__ import annotations

import numpy as np

from attune.catalog import Experts
from attune.estimate.columns import Columns
from attune.estimate.machine import Machine
from attune.layout.table import Floats


def ring(
    machine: Machine, size: Floats, ranks: Floats, stride: Floats | float, steps: float
) -> Floats:
    """Seconds of a ring over `ranks`: 1 step to gather or scatter `size` bytes, 2 to all-reduce."""
    members = np.clip(machine.node / stride, 1, ranks)
    nodes = np.ceil(ranks / members)
    crosses = ranks * stride > machine.node
    network = np.minimum(machine.node_link, machine.network_link * members)
    bandwidth = np.where(crosses, network, machine.node_link)
    latency = machine.node_latency_s * (members - 1)
    latency = latency + np.where(crosses, machine.network_latency_s * (nodes - 1), 0.0)
    time: Floats = steps * (latency + (ranks - 1) / ranks * size / bandwidth)
    return np.where(ranks > 1, time, 0.0)


def token_exchange(columns: Columns, machine: Machine) -> Floats:
    """Seconds of one dispatch (or combine) of a microbatch's tokens to their experts."""
    experts = columns.model.experts
    if experts is None:
        return np.zeros_like(columns.tokens)
    size = columns.width * columns.awaited * columns.model.hidden
    exchange = _all_to_all(columns, machine, size, experts)
    tokens = columns.width * columns.sharded * columns.model.hidden * columns.ep * columns.etp
    gather = ring(machine, tokens, columns.ep * columns.etp, 1.0, 1)
    time: Floats = np.where(columns.uses("allgather"), gather, exchange)
    return np.where(columns.ep * columns.etp > 1, time, 0.0)


def _all_to_all(columns: Columns, machine: Machine, size: Floats, experts: Experts) -> Floats:
    """`size` bytes: every choice of every token. The flex dispatcher (DeepEP, HybridEP) sends a
    token once to each node and, inside it, once to each rank, however many of its experts stand
    there."""
    ep, etp = columns.ep, columns.etp
    members = np.clip(machine.node / etp, 1, ep)
    nodes = np.ceil(ep / members)
    flex = columns.uses("flex")
    there = nodes_reached(experts, nodes)
    away = np.where(flex, there / experts.top_k, 1.0) * (1 - 1 / nodes)
    ranks = ranks_reached(members, experts.top_k / there) * there
    inside = np.where(flex, ranks / experts.top_k * (1 - 1 / members), (ep - 1) / ep - away)
    latency = 4 * machine.node_latency_s + np.where(nodes > 1, 2 * machine.network_latency_s, 0.0)
    return latency + size * (inside / machine.node_link + away / machine.network_all_to_all)


def nodes_reached(experts: Experts, nodes: Floats) -> Floats:
    """Nodes that hold an expert of one token, in the mean over even routing.

    Node-limited routing (DeepSeek-V3, arXiv 2412.19437, section 2.1.2): a token first chooses
    `group_top_k` of `groups` groups of experts, so only nodes with one of these can hold any.
    """
    per_node = experts.groups / nodes
    missed = np.ones_like(nodes)
    for chosen in range(experts.group_top_k if experts.groups > 1 else 0):
        missed = missed * np.clip(1 - per_node / (experts.groups - chosen), 0.0, 1.0)
    limited = np.where(per_node >= 1, 1 - missed, experts.group_top_k / experts.groups)
    open_to = nodes * limited if experts.groups > 1 else nodes
    return ranks_reached(np.maximum(open_to, 1.0), float(experts.top_k))


def ranks_reached(ranks: Floats, choices: Floats | float) -> Floats:
    """Of so many ranks, those that an even draw of so many choices hits, in the mean."""
    reached: Floats = ranks * (1 - (1 - 1 / ranks) ** choices)
    return reached


def tensor_exchange(columns: Columns, machine: Machine) -> Floats:
    """Seconds of one all-reduce (or gather and scatter) of a microbatch's activations over TP."""
    size = columns.width * columns.tokens * columns.model.hidden
    share = np.where(columns.table.overlap_tensor, 0.4, 1.0)
    return ring(machine, size, columns.tp, 1.0, 2) * share


def context_exchange(columns: Columns, machine: Machine, bytes_per_token: Floats) -> Floats:
    """Seconds in which keys and values go round the context-parallel ring."""
    away = columns.tp * columns.cp > machine.node
    bandwidth = np.where(away, machine.network_link, machine.node_link)
    latency = np.where(away, machine.network_latency_s, machine.node_latency_s)
    step = columns.tokens * bytes_per_token / bandwidth + latency
    time: Floats = (columns.cp - 1) * step
    return time


def stage_transfer(columns: Columns, machine: Machine, *, scattered: bool = False) -> Floats:
    """Seconds in which a microbatch's activations go to the next stage.

    `scattered`: every tensor rank sends its part, though activations are not sharded (the
    scatter-gather of arXiv 2104.04473).
    """
    tokens = columns.tokens / columns.tp if scattered else columns.sharded
    size = columns.width * tokens * columns.model.hidden
    away = columns.tp * columns.cp * columns.dp >= machine.node
    away = away & (columns.cluster.count > machine.node)
    network = size / machine.network_link + machine.network_latency_s
    inside = size / machine.node_link + machine.node_latency_s
    time: Floats = np.where(columns.pp > 1, np.where(away, network, inside), 0.0)
    return time
