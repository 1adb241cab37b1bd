"""Speeds of one GPU: data-sheet peaks times the shares of them that training reaches."""

from __future__ import annotations

from dataclasses import dataclass

from attune.catalog import Cluster
from attune.estimate.columns import Columns
from attune.workload import Workload

DEFAULTS = {
    "gemm": 0.75,
    "quantized_gemm": 0.60,
    "grouped_gemm": 0.60,
    "quantized_grouped_gemm": 0.45,
    "attention": 0.50,
    "attention_backward": 0.80,
    "memory": 0.75,
    "node_link": 0.75,
    "network_link": 0.70,
    "network_all_to_all": 0.55,
    "hidden_share": 0.5,
    "kernel_us": 3.0,
    "host_kernel_us": 15.0,
    "host_backward": 1.2,
    "step_ms": 5.0,
    "microbatch_ms": 0.5,
    "optimizer_bytes": 40.0,
    "ramp": 128.0,
    "offload_ns": 4.0,
    "copy_gbps": 25.0,
    "elementwise": 1.0,
    "sharpness": 8.0,
    "softmax": 1.6,
    "quantize_bytes": 4.0,
}
"""Terms of the time model where the catalogue's GPU has none fitted (`efficiency:` there).

Shares of peak: dense, FP8 and grouped GEMM plateaus, attention core (and its backward relative to
forward), memory bandwidth, ring collectives inside the node and across nodes, all-to-all across
nodes, share of a backward pass that hides data-parallel traffic. Device and host time per kernel,
host cost of backward over forward, fixed times per step and per microbatch and chunk, bytes the
optimizer moves per parameter, elements after which a GEMM's inner loop reaches half speed, traffic
of elementwise work over its least, exponent of the smooth maximum of device and host time, traffic
of scale, mask and softmax as kernels of their own over the fused one. `node_latency_us` and
`network_latency_us` replace those of the links.
Source: defaults of a study on 700 published step times (A100, H100, B200), median error about
10 to 25 % before any fit. Host Adam: 1.6 ns per parameter if one rank has the host for itself
(0.75 s to 1.68 s at full offload of a 0.6 B model, NeMo-RL PR 3628), 3 to 8 where eight ranks share
it (a 30 B model on 16 GPUs became 1.9 to 4.2 times slower, Megatron-Bridge PR 3062); host copies:
PCIe 4/5 from pinned memory.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """Effective speeds, in FLOP/s, bytes/s and seconds."""

    peak: float
    """FLOP/s of attention, router and head."""
    linear_peak: float
    """FLOP/s of the linear layers (their own precision)."""
    linear: float
    """Share of `linear_peak` that a large linear reaches."""
    gemm: float
    grouped: float
    """Share of `linear_peak` that the grouped GEMMs of the experts reach."""
    attention: float
    attention_backward: float
    memory: float
    """Bytes/s that kernels reach."""
    quantize_bytes: float
    """Bytes moved per element that a linear casts to FP8; 0 in other precisions."""
    multiprocessors: int
    tiled: bool
    """Whether GEMMs run in waves of tiles over the multiprocessors."""
    kernel_s: float
    host_kernel_s: float
    host_backward: float
    node: int
    """GPUs that the fast link joins."""
    node_link: float
    """Bytes/s inside the node."""
    node_latency_s: float
    network_link: float
    """Bytes/s across nodes, per GPU."""
    network_all_to_all: float
    network_latency_s: float
    hidden_share: float
    step_s: float
    microbatch_s: float
    optimizer_bytes: float
    ramp: float
    offload_s: float
    """Host seconds per offloaded parameter of one rank."""
    copy: float
    """Bytes/s between host and device."""
    elementwise: float
    """Traffic of elementwise work over what its tensors need at least."""
    sharpness: float
    """Exponent of the smooth maximum of device and host time."""
    softmax: float
    """Traffic of scale, mask and softmax of their own over the fused kernel's."""


def machine_of(cluster: Cluster, workload: Workload) -> Machine:
    """Effective speeds of a cluster's GPU at the workload's precision."""
    gpu = cluster.gpu
    terms = {**DEFAULTS, **gpu.efficiency}
    quantized = workload.precision == "fp8"
    plain = "bf16" if quantized else workload.precision
    peak = _peak(gpu.peak_tflops, plain)
    return Machine(
        peak=peak,
        linear_peak=_peak(gpu.peak_tflops, workload.precision),
        linear=terms["quantized_gemm"] if quantized else terms["gemm"],
        gemm=terms["gemm"],
        grouped=terms["quantized_grouped_gemm" if quantized else "grouped_gemm"],
        attention=terms["attention"],
        attention_backward=terms["attention_backward"],
        memory=gpu.memory_bandwidth_gb_per_s * 1e9 * terms["memory"],
        quantize_bytes=terms["quantize_bytes"] if quantized else 0.0,
        multiprocessors=gpu.multiprocessors,
        tiled=gpu.architecture != "cpu",
        kernel_s=terms["kernel_us"] * 1e-6,
        host_kernel_s=terms["host_kernel_us"] * 1e-6,
        host_backward=terms["host_backward"],
        node=cluster.link_domain,
        node_link=gpu.node_link.bandwidth_gb_per_s * 1e9 * terms["node_link"],
        node_latency_s=terms.get("node_latency_us", gpu.node_link.latency_us) * 1e-6,
        network_link=gpu.network_link.bandwidth_gb_per_s * 1e9 * terms["network_link"],
        network_all_to_all=gpu.network_link.bandwidth_gb_per_s * 1e9 * terms["network_all_to_all"],
        network_latency_s=terms.get("network_latency_us", gpu.network_link.latency_us) * 1e-6,
        hidden_share=terms["hidden_share"],
        step_s=terms["step_ms"] * 1e-3,
        microbatch_s=terms["microbatch_ms"] * 1e-3,
        optimizer_bytes=terms["optimizer_bytes"],
        ramp=terms["ramp"],
        offload_s=terms["offload_ns"] * 1e-9,
        copy=terms["copy_gbps"] * 1e9,
        elementwise=terms["elementwise"],
        sharpness=terms["sharpness"],
        softmax=terms["softmax"],
    )


def _peak(peaks: dict[str, float], precision: str) -> float:
    """The precision's peak; what the GPU lacks runs at that of bf16."""
    return (peaks.get(precision) or peaks.get("bf16") or max(peaks.values())) * 1e12


def gradient_bytes(columns: Columns) -> int:
    """Bytes of one accumulated gradient."""
    whole = columns.workload.precision == "fp32"
    return 4 if whole or columns.workload.gradient_precision == "fp32" else 2
