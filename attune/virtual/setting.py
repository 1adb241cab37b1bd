"""Everything that the parts of a step depend on, and the costs that they share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attune.catalog import Model
from attune.layout import LayoutTable
from attune.layout.table import Floats
from attune.virtual.hidden import Hidden
from attune.virtual.kernels import Kernels
from attune.virtual.network import Network
from attune.virtual.sizes import Sizes
from attune.workload import Workload


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """Everything that the parts of a layer depend on."""

    model: Model
    workload: Workload
    table: LayoutTable
    sizes: Sizes
    hidden: Hidden
    kernels: Kernels
    network: Network
    busiest: Floats
    """Imbalance of the expert-parallel ranks, [n]."""
    kernel_choice: Floats
    """Factor on matrix products by (TP, rows), [n]."""
    link_choice: Floats
    """Factor on expert traffic by (EP, dispatcher), [n]."""

    @property
    def value_bytes(self) -> int:
        """Bytes of one activation or weight."""
        return 4 if self.workload.precision == "fp32" else 2

    @property
    def gradient_bytes(self) -> int:
        """Bytes of one accumulated gradient."""
        return 4 if self.workload.gradient_precision == "fp32" else 2

    @property
    def wide(self) -> int:
        """Projections into an MLP's hidden size: two with a gate."""
        return 2 if self.model.gated else 1

    @property
    def on_cpu(self) -> bool:
        """Whether the cluster is made of processes instead of devices."""
        return self.network.cluster.gpu.architecture == "cpu"

    @property
    def vocabulary(self) -> Floats:
        """[n] vocabulary of one tensor rank, padded as Megatron pads it."""
        shard: Floats = np.ceil(self.model.vocabulary / (128 * self.sizes.tp)) * 128
        return shard

    def linear(
        self, rows: Floats, depth: Floats | float, width: Floats | float
    ) -> tuple[Floats, Floats]:
        """Forward and backward of a linear layer, gradient accumulation included."""
        depth, width = rows * 0 + depth, rows * 0 + width
        forward = self.kernels.product(rows, depth, width)
        backward = self.kernels.product(rows, width, depth)
        backward = backward + self.kernels.product(depth, rows, width)
        backward = backward * self.kernel_choice + self.accumulation(depth * width)
        return forward * self.kernel_choice, backward

    def accumulation(self, weights: Floats) -> Floats:
        """Reading and writing the gradients of `weights` in one microbatch."""
        return self.kernels.moved(2.0 * self.gradient_bytes * weights)

    def tensor_traffic(self, exchanges: int) -> Floats:
        """Gathers and scatters of all tokens over the tensor-parallel group."""
        values = self.sizes.tokens * self.model.hidden * self.value_bytes
        group = self.network.group(self.sizes.tp, np.ones_like(self.sizes.tp))
        hides = self.table.overlap_tensor & self.table.sequence_parallel
        shown = np.where(hides, 1 - self.hidden.tensor_hiding, 1.0)
        seconds: Floats = exchanges * self.network.ring(values, group) * shown
        return seconds

    def gathers_again(self) -> Floats:
        """The gather that sequence parallelism repeats for weight gradients."""
        again: Floats = np.where(self.table.sequence_parallel, self.tensor_traffic(1), 0.0)
        return again
