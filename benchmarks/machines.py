"""GPUs of measured rows: those of the catalogue, and variants of them given here as data."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from attune.catalog import Cluster, Gpu, gpu_names, load_gpu
from attune.catalog.loader import merged
from benchmarks.shapes import UnmodelledError

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    # The source does not say which A100; only its memory differs.
    "a100": ("a100-80", {}),
    # Export variants: the same chip with 400 GB/s of NVLink (both ways). Data sheets.
    "a800-80": ("a100-80", {"node_link": {"bandwidth_gb_per_s": 200.0}}),
    "h800": ("h100", {"node_link": {"bandwidth_gb_per_s": 200.0}}),
    # GH200 data sheet: 96 GB HBM3 at 4 TB/s; four to a node of Alps.
    "gh200": (
        "h100",
        {"memory_gb": 96.0, "memory_gib": 94.5, "memory_bandwidth_gb_per_s": 4000.0, "per_node": 4},
    ),
    # V100 data sheet: 125 TFLOP/s of fp16, 900 GB/s, NVLink 2 at 150 GB/s one way, 80 SMs.
    "v100-16": (
        "a100-80",
        {
            "architecture": "volta",
            "memory_gb": 16.0,
            "memory_gib": 15.78,
            "memory_bandwidth_gb_per_s": 900.0,
            "multiprocessors": 80,
            "peak_tflops": {"fp16": 125.0, "bf16": 125.0, "fp32": 15.7},
            "node_link": {"bandwidth_gb_per_s": 150.0},
            "network_link": {"bandwidth_gb_per_s": 12.5},
            "per_node": 4,
        },
    ),
    "v100-32": (
        "a100-80",
        {
            "architecture": "volta",
            "memory_gb": 32.0,
            "memory_gib": 31.75,
            "memory_bandwidth_gb_per_s": 900.0,
            "multiprocessors": 80,
            "peak_tflops": {"fp16": 125.0, "bf16": 125.0, "fp32": 15.7},
            "node_link": {"bandwidth_gb_per_s": 150.0},
            "network_link": {"bandwidth_gb_per_s": 12.5},
            "per_node": 4,
        },
    ),
}


@lru_cache
def gpu_of(name: str) -> Gpu:
    """The GPU of a measured row.

    Raises:
        UnmodelledError: not stated, or neither in the catalogue nor a variant of one there.
    """
    if not name:
        raise UnmodelledError("the GPU is not stated")
    if name in gpu_names():
        return load_gpu(name)
    if name not in VARIANTS:
        raise UnmodelledError(f"no data of the GPU {name}")
    base, changes = VARIANTS[name]
    return Gpu.model_validate({**merged(load_gpu(base).model_dump(), changes), "id": name})


def cluster_of(name: str, count: int, per_node: int | None) -> Cluster:
    """`count` such GPUs, `per_node` to a node where that is stated.

    Raises:
        UnmodelledError: see `gpu_of`.
    """
    gpu = gpu_of(name)
    if per_node and per_node != gpu.per_node and (gpu.link_domain or per_node) % per_node == 0:
        gpu = gpu.model_copy(update={"per_node": per_node})
    return Cluster(gpu=gpu, count=count)
