"""Memory and step time of every layout of a table, before any trial."""

from attune.estimate.calibration import NO_CALIBRATION, Calibration, Observation, learn
from attune.estimate.layer_cell import LayerCell, cell_layout, node_of
from attune.estimate.measured_layers import expected_layers, observe_layers
from attune.estimate.memory import MemoryEstimate, estimate_memory
from attune.estimate.observe import observe, observe_peak
from attune.estimate.stack import Stack
from attune.estimate.step_time import TimeEstimate, estimate_step_time

__all__ = [
    "NO_CALIBRATION",
    "Calibration",
    "LayerCell",
    "MemoryEstimate",
    "Observation",
    "Stack",
    "TimeEstimate",
    "cell_layout",
    "estimate_memory",
    "estimate_step_time",
    "expected_layers",
    "learn",
    "node_of",
    "observe",
    "observe_layers",
    "observe_peak",
]
