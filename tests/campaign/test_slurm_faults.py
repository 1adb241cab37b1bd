"""A campaign on a real Slurm of 128 virtual GPUs: a trainer that plays, and faults it is told.

The stand-in speaks for all ranks in the format of miles. Slurm, its queue and its nodes are real;
the GPUs are device files, and every figure is predicted.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from slurm_cluster import slurm

from attune.experiment import Experiment
from attune.experiment.events import Finished, Proposed
from attune.trial import Job
from attune.trial.frameworks import FRAMEWORKS, Command, load_framework
from attune.trial.stand_in import Fault, stand_in_command
from attune.verbs.tune import TuneRequest, tune

pytestmark = pytest.mark.slurm

FAULTS: dict[int, Any] = {
    1: Fault(name="nccl_timeout", step=4),
    2: Fault(name="nccl_timeout", step=4),
    3: Fault(name="hang", step=6),
    4: Fault(name="oom", step=1),
}
"""What goes wrong in which run; run 0 is the reference."""


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[Path]:
    # One node more than a trial needs, so that a bad one can be left out.
    with slurm(17) as folder:
        yield folder


class PlayedMiles:
    """miles, whose command is the stand-in."""

    name = "miles"
    modules = ()
    begun: ClassVar[list[Job]] = []

    def __init__(self) -> None:
        FRAMEWORKS["real miles"] = "attune.trial.frameworks.miles:Miles"
        self._real = load_framework("real miles")
        del FRAMEWORKS["real miles"]
        self.held = self._real.held

    def refuses(self, job: Job) -> str | None:
        return None

    def refuses_model(self, job: Job) -> str | None:
        return None

    def prepare(self, job: Job) -> Command:
        fault = FAULTS.get(len(self.begun))
        self.begun.append(job)
        command = stand_in_command(job, fault=fault)
        return Command(
            argv=command.argv,
            environment=command.environment,
            files=command.files,
            processes_per_node=command.processes_per_node,
            nodes=command.nodes,
            starter="program",
            simulated=True,
        )

    def run_block(self, job: Job) -> str:
        return self._real.run_block(job)

    def own_weights(self, job: Job) -> str | None:
        return None

    def reader(self, job: Job | None = None) -> Any:
        return self._real.reader(job)


def test_faults_cost_a_run_each_and_the_campaign_ends_with_a_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTUNE_HOME", str(tmp_path))
    monkeypatch.setitem(FRAMEWORKS, "miles", "test_slurm_faults:PlayedMiles")
    request = TuneRequest(
        model="glm-4.5",
        gpu="h200",
        count=128,
        framework="miles",
        launcher="slurm",
        launcher_options={"poll_s": "0.2"},
        trials=6,
        probes=False,
        trial_limit_s=90.0,
        name="faults",
    )
    campaign = tune(request)
    events = list(campaign.events())
    runs = {event.run: event for event in events if isinstance(event, Finished)}
    outcomes = {run: runs[run].outcome for run in (1, 2, 3, 4)}
    assert outcomes == {
        1: "infrastructure",
        2: "infrastructure",
        3: "timed_out",
        4: "out_of_memory",
    }, runs
    assert runs[1].layout == runs[2].layout, "a fault of the machine is tried once more"
    why = {event.run: event.why for event in events if isinstance(event, Proposed)}
    assert "node1" not in why[2]
    assert "without node1: 2 infrastructure failures there" in why[3]
    experiment = Experiment.open("faults")
    for run in range(3, len(runs)):
        node_list = (experiment.run_folder(run) / "result.json").read_text()
        assert '"node1"' not in node_list
        assert '"node17"' in node_list
    assert any(run.outcome == "completed" and run.purpose == "candidate" for run in runs.values())
    assert experiment.recipe_path.exists()
    asked = ["squeue", "--noheader", "--format=%i"]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == ""
