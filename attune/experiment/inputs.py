"""Every input of a campaign: `experiment.yaml`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from attune.catalog import Cluster, Model
from attune.estimate import NO_CALIBRATION, Calibration
from attune.layout.space import Space
from attune.trial.setup import Setup
from attune.workload import Workload


class Inputs(BaseModel):
    """What a campaign was asked; enough to run it again on any machine."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    experiment: str
    model: Model
    cluster: Cluster
    workload: Workload
    space: Space
    fixed: dict[str, int | float | bool | str] = {}
    """Dimensions of the space held at one value, as those that the trainer does not vary yet."""
    reference: str | None = None
    """Layout of the reference arm as one line; None is chosen by attune."""
    reference_source: str = ""
    warm_start: str | None = None
    """Layout that won elsewhere, as one line; the candidate nearest to it is tried first."""
    warm_start_source: str = ""
    objective: Literal["throughput", "cost", "time-to-tokens"] = "throughput"
    """What counts between GPU counts; on one count all three put layouts in the same order."""
    project: int | None = Field(None, gt=0)
    """GPUs that the winner is meant for; the workload then holds this cluster's part of a batch."""
    max_memory: float = Field(1.0, gt=0, le=1)
    """Share of the GPU's memory that the winner may use."""
    calibration: dict[str, Any] | None = None
    """What earlier measured trials on such nodes taught when the campaign began, as
    `Calibration.as_data` writes it; it is kept here so that a resume predicts the same."""
    framework: str = "megatron-core"
    setup: Setup = Setup()
    """How the framework is installed, and what of the user's it trains with."""
    launcher: str
    launcher_reason: str
    launcher_options: dict[str, str] = {}
    """What the site tells the launcher."""
    virtual: Literal["near", "far", "adversarial"] = "near"
    probes: bool = True
    """Whether memory may be probed on a part of the cluster before a trial."""
    advisor: Literal["rules", "none", "llm"] = "rules"
    """Who reads each run and supposes what would be faster."""
    attribution_trials: int = Field(0, ge=0)
    """Runs that may be spent on measuring where the winner's gain comes from."""
    trials: int = Field(12, ge=1)
    """Candidates to try at most."""
    gpu_hours: float | None = Field(None, gt=0)
    """Hard limit on the GPU-hours of all runs."""
    min_gain: float = Field(0.005, ge=0)
    """Stop when the expected gain of another trial is below this fraction."""
    seed: int = 0
    trial_limit_s: float = Field(3600.0, gt=0)
    """Longest wall time of one run."""
    worker_options: dict[str, str] = {}
    """Hidden options of the candidates' worker, for tests."""
    versions: dict[str, str] = {}
    table_digest: str = ""
    """Digest of the candidate table; a resume must find the same."""

    @property
    def known(self) -> Calibration:
        """The calibration that the campaign began with.

        Raises:
            AttuneError: it is from a version with other multipliers.
        """
        return Calibration.of_data(self.calibration) if self.calibration else NO_CALIBRATION

    @property
    def planned_cluster(self) -> Cluster:
        """The cluster with as much memory as may be used."""
        gpu = self.cluster.gpu
        less = {"memory_gib": gpu.memory_gib * self.max_memory}
        return self.cluster.model_copy(update={"gpu": gpu.model_copy(update=less)})
