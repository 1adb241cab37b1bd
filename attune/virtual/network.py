"""Seconds of collectives on a cluster with two link tiers, as its hidden terms make them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attune.catalog import Cluster
from attune.layout.table import Floats
from attune.virtual.hidden import Hidden


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Placement of a communication group, each [n]."""

    size: Floats
    members: Floats
    """Ranks of the group on one node."""
    nodes: Floats
    """Nodes that the group spans."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Network:
    """The links of a virtual cluster."""

    cluster: Cluster
    hidden: Hidden

    def group(self, size: Floats, stride: Floats) -> Group:
        """Where a group of `size` ranks, `stride` apart, stands on the nodes."""
        members = np.clip(np.floor(self.cluster.per_node / stride), 1, size)
        return Group(size=size, members=members, nodes=np.ceil(size / members))

    def ring(self, whole_bytes: Floats, group: Group) -> Floats:
        """One all-gather or reduce-scatter of a tensor of `whole_bytes` in all; twice: all-reduce.

        Across nodes the ring leaves a node once per member, so the members' adapters add up.
        """
        network = self._network_rate(group) * group.members
        rate = np.where(group.nodes > 1, np.minimum(self._node_rate(), network), self._node_rate())
        moved = whole_bytes * (group.size - 1) / group.size
        seconds: Floats = moved / rate + self._delay(group)
        return seconds

    def all_to_all(self, sent_bytes: Floats, group: Group, crossing: Floats) -> Floats:
        """One exchange in which each rank sends `sent_bytes`, of which `crossing` leaves the node.

        The two tiers work at once; the slower one rules, and a fifth of the faster shows.
        """
        inside = sent_bytes * (group.members - 1) / group.size / self._node_rate()
        outside = sent_bytes * crossing / self._network_rate(group)
        slow, fast = np.maximum(inside, outside), np.minimum(inside, outside)
        seconds: Floats = (slow + 0.2 * fast) / self.hidden.all_to_all + self._delay(group)
        return seconds

    def send(self, sent_bytes: Floats, crosses: Floats) -> Floats:
        """One point-to-point message; `crosses` is 1 where it leaves the node."""
        link, network = self.cluster.gpu.node_link, self.cluster.gpu.network_link
        inside = sent_bytes / self._node_rate() + link.latency_us * 1e-6 * self.hidden.latency
        rate = network.bandwidth_gb_per_s * 1e9 * self.hidden.network
        outside = sent_bytes / rate + network.latency_us * 1e-6 * self.hidden.latency
        seconds: Floats = np.where(crosses > 0, outside, inside)
        return seconds

    def _node_rate(self) -> float:
        return self.cluster.gpu.node_link.bandwidth_gb_per_s * 1e9 * self.hidden.node_link

    def _network_rate(self, group: Group) -> Floats:
        """Bytes per second and adapter; more nodes contend for the switches above them."""
        rate = self.cluster.gpu.network_link.bandwidth_gb_per_s * 1e9 * self.hidden.network
        contended: Floats = rate / (1 + self.hidden.contention * np.log2(group.nodes))
        return contended

    def _delay(self, group: Group) -> Floats:
        """Latency grows with the logarithm of the group (trees); none for a group of one."""
        link, network = self.cluster.gpu.node_link, self.cluster.gpu.network_link
        inside = link.latency_us * (1 + np.log2(group.members))
        outside = network.latency_us * (1 + np.log2(group.nodes))
        total = np.where(group.nodes > 1, inside + outside, inside)
        seconds: Floats = np.where(group.size > 1, total, 0.0) * 1e-6 * self.hidden.latency
        return seconds
