"""What a campaign takes from earlier measured runs on such nodes, and leaves for later ones."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from pathlib import Path

from attune.experiment import Experiment, Inputs, load_calibration
from attune.experiment.events import Event, Finished
from attune.layout import parse_layout
from attune.trial.runner import read_result
from attune.verbs.calibration import learn_from_trial
from attune.verbs.target import Target


def with_calibration(inputs: Inputs, file: Path | None) -> Inputs:
    """The inputs with what is known of such nodes when the campaign begins.

    Raises:
        AttuneError: the calibration's file is damaged.
    """
    known = load_calibration(inputs.cluster, inputs.framework, file)
    return inputs.model_copy(
        update={"calibration": known.as_data() if known.observations else None}
    )


def learning(
    events: Generator[Event, None, None], experiment: Experiment, file: Path | None
) -> Generator[Event, None, None]:
    """The same events; every measured run that completed is learnt from before it is told."""
    inputs = experiment.inputs()
    about = Target(model=inputs.model, cluster=inputs.cluster, workload=inputs.workload)
    with closing(events):
        for event in events:
            if isinstance(event, Finished) and event.provenance == "measured":
                result = read_result(experiment.run_folder(event.run))
                if result is not None:
                    layout = parse_layout(event.layout)
                    learn_from_trial(about, layout, result, framework=inputs.framework, file=file)
            yield event
