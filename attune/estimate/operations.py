"""Time of one operation on one GPU, forward and backward.

Every function returns a `Passes`; sizes are [n] arrays or numbers, times [n] seconds.
Form: root sum square of the time of arithmetic and of memory traffic, plus a fixed time per
kernel; arithmetic slows by wave quantisation over the multiprocessors and by a short inner loop.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attune.estimate.columns import Columns
from attune.estimate.machine import Machine, gradient_bytes
from attune.layout.table import Floats

_TILE = 128.0
_SLOWEST_WAVE = 4.0


@dataclass(frozen=True, slots=True)
class Passes:
    """Seconds of a forward and a backward pass, each [n]."""

    forward: Floats
    backward: Floats

    def __add__(self, other: Passes) -> Passes:
        return Passes(self.forward + other.forward, self.backward + other.backward)

    def scaled(self, factor: Floats | float) -> Passes:
        """Both passes times `factor`."""
        return Passes(self.forward * factor, self.backward * factor)


def gemm(
    machine: Machine, m: Floats, n: Floats, k: Floats, rate: float, width: float = 2.0
) -> Floats:
    """Seconds of one [m, k] x [k, n] product at `rate` FLOP/s on its plateau."""
    arithmetic = 2 * m * n * k / rate * (1 + machine.ramp / k) * _wave(machine, m, n)
    traffic = width * (m * k + k * n + m * n) / machine.memory
    time: Floats = np.sqrt(arithmetic**2 + traffic**2) + machine.kernel_s
    return time


def _wave(machine: Machine, m: Floats, n: Floats) -> Floats | float:
    """Slow-down because tiles fill whole waves of multiprocessors."""
    if not machine.tiled:
        return 1.0
    tiles = np.ceil(m / _TILE) * np.ceil(n / _TILE)
    waves = np.ceil(tiles / machine.multiprocessors) * machine.multiprocessors
    slowdown: Floats = np.minimum(waves * _TILE * _TILE / (m * n), _SLOWEST_WAVE)
    return slowdown


def linear(
    columns: Columns,
    machine: Machine,
    m: Floats,
    n: Floats | float,
    k: Floats | float,
    *,
    head: bool = False,
) -> Passes:
    """A linear layer of m tokens, k inputs and n outputs: forward, then both gradients."""
    n, k = np.broadcast_to(n, m.shape), np.broadcast_to(k, m.shape)
    rate = machine.peak * machine.gemm if head else machine.linear_peak * machine.linear
    width = float(columns.width)
    forward = gemm(machine, m, n, k, rate, width)
    backward = gemm(machine, m, k, n, rate, width) + gemm(machine, n, k, m, rate, width)
    time = Passes(forward, backward + _accumulation(columns, k * n, machine))
    return time if head else time + _quantization(machine, m * k, m * n)


def _quantization(machine: Machine, inputs: Floats, gradients: Floats) -> Passes:
    """Casting the inputs of a linear and the gradient of its output to FP8."""
    per_element = machine.quantize_bytes / machine.memory
    return Passes(inputs * per_element, gradients * per_element)


def grouped(
    columns: Columns, machine: Machine, m: Floats, n: Floats, k: Floats, count: Floats
) -> Passes:
    """`count` products of m tokens each, padded to whole tiles, in one grouped launch."""
    rate = machine.linear_peak * machine.grouped
    wave = np.ceil(m / _TILE) * _TILE / m if machine.tiled else 1.0
    flops = 2 * m * n * k * count / rate * wave
    traffic = columns.width * (m * k + k * n + m * n) * count / machine.memory
    forward = np.sqrt(flops**2 + traffic**2) + 4 * machine.kernel_s
    backward = 2 * forward + _accumulation(columns, k * n * count, machine)
    time = Passes(forward, backward)
    return time + _quantization(machine, m * k * count, m * n * count)


def _accumulation(columns: Columns, weights: Floats, machine: Machine) -> Floats:
    """Adding a microbatch's weight gradients to the accumulated ones."""
    if gradient_bytes(columns) == 4:
        return 8.0 * weights / machine.memory
    added: Floats = 6.0 * (1 - 1 / columns.microbatches) * weights / machine.memory
    return added


def elementwise(machine: Machine, forward: Floats, backward: Floats, kernels: float) -> Passes:
    """Memory-bound work that moves so many bytes in each pass."""
    speed = machine.memory / machine.elementwise
    return Passes(
        forward / speed + kernels * machine.kernel_s,
        backward / speed + 1.25 * kernels * machine.kernel_s,
    )
