"""Memory and step time of every layout of a table, before any trial."""

from attune.estimate.calibration import NO_CALIBRATION, Calibration, Observation, learn
from attune.estimate.memory import MemoryEstimate, estimate_memory
from attune.estimate.stack import Stack

__all__ = [
    "NO_CALIBRATION",
    "Calibration",
    "MemoryEstimate",
    "Observation",
    "Stack",
    "estimate_memory",
    "learn",
]
