"""A layout: everything that may change speed and memory but not the mathematics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Dispatcher = Literal["alltoall", "allgather", "flex"]
Granularity = Literal["none", "selective", "full"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """One layout, in the field's own short names; DP follows from the number of GPUs.

    Values are kept as asked, legal or not: `attune.layout.rules` judges them.
    """

    tp: int = 1
    """Tensor-parallel degree."""
    pp: int = 1
    """Pipeline-parallel degree."""
    vpp: int = 1
    """Virtual stages (model chunks) per pipeline rank; 1 is no interleaving."""
    cp: int = 1
    """Context-parallel degree."""
    ep: int = 1
    """Expert-parallel degree."""
    etp: int = 1
    """Expert tensor-parallel degree."""
    sequence_parallel: bool = False
    rows_per_microbatch: int = 1
    """Rows of one microbatch, shared by the context-parallel group (micro batch size)."""
    first: int | None = None
    """Layers on the first pipeline stage; None is an even share."""
    last: int | None = None
    """Layers on the last pipeline stage; None is an even share."""
    pipeline_layout: str | None = None
    """Megatron's explicit layout string, for example `Et*3|(tt|)*29L`."""
    recompute: Granularity = "none"
    recompute_modules: tuple[str, ...] = ()
    """Modules of selective recompute, sorted; empty is the framework's default (core_attn)."""
    recompute_method: Literal["uniform", "block"] | None = None
    recompute_layers: int | None = None
    """Layers per checkpoint (uniform) or layers recomputed per chunk (block)."""
    optimizer_offload: float = 0.0
    """Share of the optimizer that lives and steps on the host, 0 to 1."""
    overlap_offload: bool = False
    """Overlap the host copies of an offloaded optimizer."""
    precision_aware_optimizer: bool = False
    dispatcher: Dispatcher = "alltoall"
    overlap_shared_experts: bool = False
    overlap_experts: bool = False
    """Hide the expert all-to-all behind another microbatch (1F1B overlap)."""
    overlap_gradients: bool = False
    """Overlap the gradient reduction with the backward pass."""
    overlap_parameters: bool = False
    """Overlap the parameter all-gather with the forward pass."""
    overlap_tensor: bool = False
    """Overlap tensor-parallel communication with its GEMMs."""
    cuda_graphs: bool = False
    delayed_weight_gradients: bool = False
    distributed_optimizer: bool = True

    def dp(self, count: int) -> int:
        """Data-parallel degree on `count` GPUs (context parallel not included)."""
        return count // (max(self.tp, 1) * max(self.pp, 1) * max(self.cp, 1))

    def edp(self, count: int) -> int:
        """Expert-data-parallel degree on `count` GPUs."""
        return count // (max(self.etp, 1) * max(self.ep, 1) * max(self.pp, 1))
