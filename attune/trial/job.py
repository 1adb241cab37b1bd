"""A job: what one run is to train, and where."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from attune.catalog import Cluster, Model
from attune.layout import Layout
from attune.workload import Workload

Purpose = Literal["reference", "candidate", "confirmation", "trial"]
VirtualKind = Literal["near", "far", "adversarial"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Virtual:
    """The virtual cluster that a simulated run obeys."""

    kind: VirtualKind = "near"
    seed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One run of one layout."""

    model: Model
    cluster: Cluster
    workload: Workload
    layout: Layout
    framework: str = "megatron-core"
    purpose: Purpose = "trial"
    run: int = 0
    """Distinguishes repeated runs of one layout (the noise of a virtual cluster depends on it)."""
    limit_s: float = 1800.0
    """Wall time after which the run is stopped as `timed_out`."""
    virtual: Virtual = Virtual()
    parity: bool = False
    """Whether the parity probe runs in the first two steps, whose times then count for nothing."""
    worker_options: dict[str, str] = field(default_factory=dict)
    """Hidden options of the worker, for tests: `learning_rate_scale=1.02`."""
