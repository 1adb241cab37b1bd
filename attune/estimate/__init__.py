"""Memory and step time of every layout of a table, before any trial."""

from attune.estimate.calibration import NO_CALIBRATION, Calibration, Observation, learn
from attune.estimate.memory import MemoryEstimate, estimate_memory
from attune.estimate.observe import observe, observe_peak
from attune.estimate.stack import Stack
from attune.estimate.step_time import TimeEstimate, estimate_step_time

__all__ = [
    "NO_CALIBRATION",
    "Calibration",
    "MemoryEstimate",
    "Observation",
    "Stack",
    "TimeEstimate",
    "estimate_memory",
    "estimate_step_time",
    "learn",
    "observe",
    "observe_peak",
]
