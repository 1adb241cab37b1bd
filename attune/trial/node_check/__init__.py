"""A minute on every node before a campaign: matrix rate, memory and collectives, the slow named."""

from attune.trial.node_check.check import NodeReport, NodeSpeed, check_nodes

__all__ = ["NodeReport", "NodeSpeed", "check_nodes"]
