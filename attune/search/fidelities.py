"""Which measurement to buy next: a whole trial, or first a probe of its memory on one node.

The estimator's word is free, a probe holds a node for minutes, a trial the whole cluster. A probe
earns nothing itself; it is worth its price where a trial is likely to end out of memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from attune.trial.job import Job
from attune.trial.result import Provenance

PROBE_TRUST = 0.95
"""Share of the trials that would run out of memory which a probe finds: it plays one rank, without
peers, under balanced routing."""

Fidelity = Literal["trial", "memory probe"]


@dataclass(frozen=True, kw_only=True)
class Prices:
    """GPU-hours of what may be bought."""

    trial: float
    """A trial that runs to its end."""
    failed: float
    """A trial that ends out of memory in its first steps."""
    probe: float


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a memory probe showed."""

    fits: bool | None
    """False where the rank ran out of memory by itself; None where the probe failed."""
    peak_gib: float | None
    """Reserved peak of the rank that is predicted to need most."""
    gpu_hours: float
    provenance: Provenance
    evidence: str = ""


class Prober(Protocol):
    """Measures the memory of a layout on a part of the cluster."""

    gpus: int
    """GPUs that a probe holds."""

    def probe_memory(self, job: Job, stage: int, directory: Path) -> Reading:
        """Plays the first rank of `stage` of the job's layout, and says what it needed."""
        ...


def best_buy(gain: float, p_fits: float, prices: Prices) -> Fidelity:
    """The purchase with the larger expected gain per expected GPU-hour.

    A trial gains with probability P(fits) and else costs its start. A probe is paid always, and
    spares the trial's start in most cases that do not fit; the gain stays the same.
    """
    gained = gain * p_fits
    at_once = p_fits * prices.trial + (1 - p_fits) * prices.failed
    missed = (1 - p_fits) * (1 - PROBE_TRUST) * prices.failed
    probed = prices.probe + p_fits * prices.trial + missed
    return "memory probe" if gained / max(probed, 1e-12) > gained / max(at_once, 1e-12) else "trial"
