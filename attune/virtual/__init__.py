"""Virtual clusters: the truth that simulated trials obey, apart from every estimate."""

from attune.virtual.cluster import VirtualCluster
from attune.virtual.performance import OutOfMemory, Performance, Truth

__all__ = ["OutOfMemory", "Performance", "Truth", "VirtualCluster"]
