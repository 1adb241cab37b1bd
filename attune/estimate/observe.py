"""What one trial taught, beside what was predicted for it."""

from __future__ import annotations

from attune.estimate.calibration import Observation
from attune.estimate.memory import MemoryEstimate
from attune.estimate.step_time import TimeEstimate


def observe(
    time: TimeEstimate,
    memory: MemoryEstimate,
    row: int = 0,
    *,
    measured_s: float | None = None,
    measured_reserved_gib: float | None = None,
) -> Observation:
    """The observation of row `row`: step time, and reserved peak of the worst stage."""
    return Observation(
        parts={name: float(values[row]) for name, values in time.parts.items()},
        predicted_s=float(time.total[row]),
        measured_s=measured_s,
        predicted_gib=float(memory.reserved[row].max()),
        measured_gib=measured_reserved_gib,
        layers_measured=time.layers_measured is not None and bool(time.layers_measured[row]),
    )


def observe_peak(predicted_gib: float, measured_gib: float) -> Observation:
    """The observation of one rank's reserved peak alone, as a memory probe makes it."""
    return Observation(
        parts={}, predicted_s=0.0, predicted_gib=predicted_gib, measured_gib=measured_gib
    )
