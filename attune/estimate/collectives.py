"""Time of collectives by latency and bandwidth over the tiers of the network.

Ranks stand in the order tp, cp, dp, pp (experts: etp, ep within), so a group of n ranks at a
stride crosses nodes when it spans more than one.
"""

from __future__ import annotations

import numpy as np

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
    size = columns.width * columns.routed * columns.model.hidden
    exchange = _all_to_all(columns, machine, size, float(experts.top_k))
    tokens = columns.width * columns.sharded * columns.model.hidden * columns.ep * columns.etp
    gather = ring(machine, tokens, columns.ep * columns.etp, 1.0, 1)
    time: Floats = np.where(columns.uses("allgather"), gather, exchange)
    return np.where(columns.ep * columns.etp > 1, time, 0.0)


def _all_to_all(columns: Columns, machine: Machine, size: Floats, top_k: float) -> Floats:
    ep, etp = columns.ep, columns.etp
    members = np.clip(machine.node / etp, 1, ep)
    nodes = np.ceil(ep / members)
    away = np.where(ep * etp > machine.node, 1 - members / ep, 0.0)
    inside = (ep - 1) / ep - away
    # The flex dispatcher sends a token once to a node, however many of its experts stand there.
    once = np.where(columns.uses("flex"), np.minimum(nodes, top_k) / top_k, 1.0)
    latency = 4 * machine.node_latency_s + np.where(nodes > 1, 2 * machine.network_latency_s, 0.0)
    network = machine.network_all_to_all
    return latency + size * inside / machine.node_link + size * away * once / network


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
