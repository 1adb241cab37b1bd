"""A GPU type, and a cluster of them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

LARGEST_COUNT = 2**20
"""Most GPUs of a cluster; beyond what anybody has, so a larger count is a slip."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Link(_Part):
    """One tier of the network, as one GPU sees it."""

    bandwidth_gb_per_s: float = Field(gt=0)
    """GB/s per GPU, one way (GB is 10^9 bytes)."""
    latency_us: float = Field(gt=0)


class Gpu(_Part):
    """An accelerator type with its usual node around it."""

    id: str
    name: str
    aliases: tuple[str, ...] = ()
    source: str
    architecture: str
    """hopper, blackwell, ampere, cdna3 or cpu."""
    memory_gb: float = Field(gt=0)
    """Nominal memory, as in the recipe page (10^9 bytes in name only)."""
    memory_gib: float = Field(gt=0)
    """Memory that the driver reports as total, GiB."""
    peak_tflops: dict[str, float]
    """Dense peak by precision, TFLOP/s: bf16, fp16, fp32, fp8."""
    memory_bandwidth_gb_per_s: float = Field(gt=0)
    """Device memory bandwidth, GB/s."""
    multiprocessors: int = Field(gt=0)
    per_node: int = Field(gt=0, le=4096)
    link_domain: int | None = Field(None, gt=0)
    """GPUs that `node_link` joins, where it reaches beyond a node (NVL72); None is one node."""
    node_link: Link
    """Inside a node (NVLink, Infinity Fabric, shared memory)."""
    network_link: Link
    """Across nodes, per GPU."""
    host_memory_gib: float = Field(gt=0)
    """Memory of the host, per node."""
    instance: str
    """The cloud instance that the price belongs to."""
    usd_per_gpu_hour: float = Field(ge=0)
    efficiency: dict[str, float] = {}
    """Fitted terms of the time model for this GPU; absent ones take the model's defaults."""

    @model_validator(mode="after")
    def _consistent(self) -> Gpu:
        if any(value <= 0 for value in self.peak_tflops.values()) or not self.peak_tflops:
            raise ValueError(f"peak_tflops must be positive, got {self.peak_tflops}")
        if self.link_domain is not None and self.link_domain % self.per_node:
            raise ValueError(
                f"link_domain ({self.link_domain}) must hold whole nodes of {self.per_node}"
            )
        return self


class Cluster(_Part):
    """`count` GPUs of one type, `per_node` to a node."""

    gpu: Gpu
    count: int = Field(gt=0, le=LARGEST_COUNT)

    @property
    def per_node(self) -> int:
        """GPUs of one node; a cluster smaller than a node is one node of `count`."""
        return min(self.gpu.per_node, self.count)

    @property
    def link_domain(self) -> int:
        """GPUs that the fast link joins, at most `count`."""
        return min(self.gpu.link_domain or self.gpu.per_node, self.count)

    @property
    def nodes(self) -> int:
        """Nodes of the cluster."""
        return self.count // self.per_node
