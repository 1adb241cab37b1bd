"""A job: what one run is to train, and where."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from attune.catalog import Cluster, Model
from attune.layout import Layout
from attune.trial.probe import MemoryProbe, Probe
from attune.trial.setup import Setup
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
    setup: Setup = field(default_factory=Setup)
    """How the framework is installed, and what of the user's it trains with."""
    purpose: Purpose = "trial"
    run: int = 0
    """Distinguishes repeated runs of one layout (the noise of a virtual cluster depends on it)."""
    limit_s: float = 1800.0
    """Wall time after which the run is stopped as `timed_out`."""
    virtual: Virtual = Virtual()
    parity: bool = False
    """Whether the parity probe runs in the first two steps, whose times then count for nothing."""
    probe: Probe | None = None
    """What is measured instead of a trial; None trains."""
    worker_options: dict[str, str] = field(default_factory=dict)
    """Hidden options of the worker, for tests: `learning_rate_scale=1.02`."""

    @property
    def world(self) -> int:
        """Ranks of the layout; a memory probe plays one of more than the cluster has."""
        return self.probe.world if isinstance(self.probe, MemoryProbe) else self.cluster.count

    @property
    def steps(self) -> int:
        """Steps that a whole run logs; of a layer probe, the kinds of layer."""
        if self.probe is None:
            return self.workload.steps
        probe = self.probe
        return probe.steps if isinstance(probe, MemoryProbe) else len(probe.kinds)
