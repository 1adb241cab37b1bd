"""Probes a candidate's memory: one rank of it alone, on one GPU of one node."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from attune.catalog import Cluster
from attune.experiment import Inputs
from attune.search.fidelities import Prober, Reading
from attune.trial.job import Job
from attune.trial.launchers import Launcher
from attune.trial.probe import MemoryProbe
from attune.trial.runner import run

_FRAMEWORK = "megatron-core"
"""Probes are the worker's own; other frameworks have none."""


def load_prober(inputs: Inputs, launcher: Launcher) -> Prober | None:
    """What probes the campaign's candidates.

    None where probes are switched off, where the trainer has none, and on a single node, which a
    probe would hold as a whole trial does.
    """
    if not inputs.probes or inputs.framework != _FRAMEWORK or inputs.cluster.nodes == 1:
        return None
    return RankProber(launcher, inputs.cluster.per_node)


class RankProber:
    """Plays the first rank of a stage, without peers."""

    def __init__(self, launcher: Launcher, gpus: int) -> None:
        self._launcher = launcher
        self.gpus = gpus
        """GPUs that are paid for: a scheduler hands out whole nodes."""

    def probe_memory(self, job: Job, stage: int, directory: Path) -> Reading:
        """The reading; a probe that fails by anything but memory says nothing."""
        world = job.cluster.count
        alone = replace(
            job,
            cluster=Cluster(gpu=job.cluster.gpu, count=1),
            probe=MemoryProbe(world=world, rank=stage * (world // job.layout.pp)),
        )
        result = run(alone, self._launcher, directory)
        fits = {"completed": True, "out_of_memory": False}.get(result.outcome)
        return Reading(
            fits=fits,
            peak_gib=result.peak_reserved_gib if fits else None,
            gpu_hours=self.gpus * result.wall_s / 3600,
            provenance=result.provenance,
            evidence=result.evidence,
        )
