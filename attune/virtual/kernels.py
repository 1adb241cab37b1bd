"""Seconds of single kernels on the virtual GPU: matrix products, attention, elementwise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attune.catalog import Gpu
from attune.layout.table import Floats
from attune.virtual.hidden import Hidden
from attune.workload import Workload


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernels:
    """A GPU with its hidden efficiencies; sizes are arrays [n] or plain numbers."""

    gpu: Gpu
    hidden: Hidden
    workload: Workload

    def product(self, rows: Floats, depth: Floats | float, width: Floats | float) -> Floats:
        """A dense [rows, depth] x [depth, width] product."""
        reach = _reach(rows, self.hidden.gemm_half_rows)
        return self._matrix(rows, depth, width, self.hidden.gemm * reach, rows * 0 + 1)

    def grouped(
        self, rows: Floats, depth: Floats | float, width: Floats | float, experts: Floats
    ) -> Floats:
        """`experts` products that share `rows` between them."""
        reach = _reach(rows / experts, self.hidden.grouped_half_rows)
        return self._matrix(rows, depth, width, self.hidden.grouped * reach, experts)

    def _matrix(
        self,
        rows: Floats,
        depth: Floats | float,
        width: Floats | float,
        efficiency: Floats,
        weights: Floats,
    ) -> Floats:
        half = self.hidden.gemm_half_depth
        narrow = _reach(np.asarray(depth, dtype=float), half) * _reach(
            np.asarray(width, dtype=float), half
        )
        compute = 2 * rows * depth * width / (self.peak() * efficiency * narrow)
        values = rows * depth + rows * width + weights * depth * width
        traffic = self.moved(2.0 * values)
        seconds: Floats = (compute**3 + traffic**3) ** (1 / 3)
        return seconds

    def moved(self, moved_bytes: Floats) -> Floats:
        """Traffic of device memory."""
        rate = self.gpu.memory_bandwidth_gb_per_s * 1e9 * self.hidden.memory
        seconds: Floats = moved_bytes / rate
        return seconds

    def elementwise(self, moved_bytes: Floats) -> Floats:
        """Elementwise kernels that must move `moved_bytes` at least."""
        return self.moved(moved_bytes * self.hidden.elementwise)

    def attention(self, operations: Floats, backward: bool) -> Floats:
        """An attention core of that many floating-point operations."""
        share = self.hidden.attention_backward if backward else self.hidden.attention
        seconds: Floats = operations / (self.peak("bf16") * share)
        return seconds

    def peak(self, precision: str | None = None) -> float:
        """FLOP/s of the data sheet in `precision`, the workload's by default."""
        peaks = self.gpu.peak_tflops
        wanted = precision or self.workload.precision
        if self.workload.precision == "fp32":
            wanted = "fp32"
        return peaks.get(wanted, peaks.get("bf16", max(peaks.values()))) * 1e12


def _reach(size: Floats, half: float) -> Floats:
    """Share of the plateau that a product of this size reaches."""
    share: Floats = size / (size + half)
    return share
