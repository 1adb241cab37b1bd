"""What a campaign leaves on disk: inputs, events, records, resume."""

from attune.experiment.calibration import (
    list_calibrations,
    load_calibration,
    reset_calibrations,
    save_calibration,
    update_calibration,
)
from attune.experiment.calibration_records import (
    CalibrationKey,
    SavedCalibration,
    calibration_file,
)
from attune.experiment.experiment import Experiment, experiments_folder, list_experiments
from attune.experiment.inputs import Inputs
from attune.experiment.layer_cells import load_cells, save_cell

__all__ = [
    "CalibrationKey",
    "Experiment",
    "Inputs",
    "SavedCalibration",
    "calibration_file",
    "experiments_folder",
    "list_calibrations",
    "list_experiments",
    "load_calibration",
    "load_cells",
    "reset_calibrations",
    "save_calibration",
    "save_cell",
    "update_calibration",
]
