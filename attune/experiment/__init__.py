"""What a campaign leaves on disk: inputs, events, records, resume."""

from attune.experiment.experiment import Experiment, experiments_folder, list_experiments
from attune.experiment.inputs import Inputs

__all__ = ["Experiment", "Inputs", "experiments_folder", "list_experiments"]
