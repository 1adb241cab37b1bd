"""Whole campaigns over a handful of layouts: faults, kills at awkward moments, resume."""

from __future__ import annotations

from pathlib import Path

import pytest

from attune.catalog import load_cluster, load_model
from attune.errors import AttuneError
from attune.experiment import Experiment, Inputs
from attune.experiment.events import Completed, Event, Finished, Proposed, Stopped, Verified
from attune.layout.space import Space
from attune.search import campaign
from attune.search.campaign import run_campaign
from attune.trial.frameworks import Command
from attune.trial.job import Job
from attune.trial.launchers.simulated import SimulatedHandle, SimulatedLauncher
from attune.trial.stand_in import Fault
from attune.workload import Workload


class FaultyLauncher(SimulatedLauncher):
    """The simulated launcher, with a fault in the runs named."""

    def __init__(self, faults: dict[int, str]) -> None:
        super().__init__()
        self._faults = faults

    def start(self, job: Job, command: Command, directory: Path) -> SimulatedHandle:
        name = self._faults.get(int(directory.name))
        self._fault = Fault(name=name) if name else None
        return super().start(job, command, directory)


class Killed(BaseException):
    """Stands for kill -9: nothing of attune handles it."""


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[int, str]:
    """Faults by run number, to be filled by the test."""
    monkeypatch.setenv("ATTUNE_HOME", str(tmp_path))
    told: dict[int, str] = {}
    monkeypatch.setattr(campaign, "load_launcher", lambda name, options: FaultyLauncher(told))
    return told


def begin(rows: tuple[int, ...], **changes: object) -> Experiment:
    """An experiment over one layout for each number of rows per microbatch."""
    inputs = Inputs(
        experiment="small",
        model=load_model("tiny-dense"),
        cluster=load_cluster("cpu", 4),
        workload=Workload(row_tokens=32, global_batch=16, precision="fp32"),
        space=Space(name="small", tp=(1,), pp=(2,), stages=("even",), rows_per_microbatch=rows),
        launcher="simulated",
        launcher_reason="asked for",
    )
    return Experiment.create(inputs.model_copy(update=changes))


def kill_at(experiment: Experiment, kind: type[Event], run: int | None) -> None:
    """Runs until the journal would receive that event, and dies there."""
    append = experiment.append

    def dying(event: Event) -> Event:
        if isinstance(event, kind) and getattr(event, "run", None) == run:
            raise Killed
        return append(event)

    experiment.append = dying  # type: ignore[method-assign]
    with pytest.raises(Killed):
        list(run_campaign(experiment))


def resume(experiment: Experiment) -> list[Event]:
    again = Experiment(experiment.folder)
    list(run_campaign(again, resumed=True))
    return again.events()


def runs(events: list[Event], purpose: str) -> list[Finished]:
    return [e for e in events if isinstance(e, Finished) and e.purpose == purpose]


def test_the_only_candidate_beside_the_reference_is_run(faults):
    events = list(run_campaign(begin((1, 2))))
    assert len({e.layout for e in runs(events, "candidate")}) == 1
    assert runs(events, "candidate")[0].layout != runs(events, "reference")[0].layout


def test_a_layout_that_faults_twice_makes_room_for_others(faults):
    faults.update({1: "nccl_timeout", 2: "nccl_timeout"})
    tried = runs(list(run_campaign(begin((1, 2, 4, 8)))), "candidate")
    assert [e.outcome for e in tried[:2]] == ["infrastructure"] * 2
    assert tried[0].layout == tried[1].layout, "once again, since it is not the layout's fault"
    assert tried[0].layout not in {e.layout for e in tried[2:]}
    assert len(tried) == 4 and {e.outcome for e in tried[2:]} <= {"completed", "pruned"}


def test_the_last_candidate_is_run_again_after_a_fault(faults):
    faults[1] = "nccl_timeout"
    tried = runs(list(run_campaign(begin((1, 2)))), "candidate")
    assert [e.outcome for e in tried] == ["infrastructure", "completed"]


def test_a_fault_of_the_machine_in_its_second_run_does_not_cost_the_win(faults):
    quiet = list(run_campaign(begin((1, 2))))
    (second,) = runs(quiet, "confirmation")
    Experiment.open("small").folder.rename(Experiment.open("small").folder.with_name("quiet"))
    faults[second.run] = "nccl_timeout"
    events = list(run_campaign(begin((1, 2))))
    again = runs(events, "confirmation")
    assert [e.outcome for e in again] == ["infrastructure", "completed"]
    assert {e.layout for e in again} == {second.layout}
    assert isinstance(events[-1], Completed) and events[-1].winner == second.layout


def test_killed_after_the_study_knew_and_before_the_journal_did(faults):
    experiment = begin((1, 2, 4))
    kill_at(experiment, Finished, 1)
    events = resume(experiment)
    layouts = [e.layout for e in runs(events, "candidate")]
    assert len(layouts) == len(set(layouts)) == 2
    assert [e.run for e in events if isinstance(e, Proposed)] == [0, 1, 2, 3]


@pytest.mark.parametrize("run", [0, 1, 2])
def test_killed_after_asking_and_before_the_proposal(faults, run):
    experiment = begin((1, 2, 4))
    kill_at(experiment, Proposed, run)
    events = resume(experiment)
    assert len(runs(events, "reference")) == 1
    assert len({e.layout for e in runs(events, "candidate")}) == 2, "no layout is lost"


def test_a_moved_reference_stays_moved_after_resume(faults):
    faults.update({0: "oom", 1: "nccl_timeout"})
    roomier = Space(name="small", tp=(1,), pp=(1, 2), stages=("even",), recompute=("none", "full"))
    experiment = begin((1,), space=roomier)
    kill_at(experiment, Proposed, 2)
    layouts = [e.layout for e in runs(resume(experiment), "reference")]
    assert layouts[0] != layouts[1] == layouts[2]


def test_a_campaign_that_is_over_leaves_its_journal_alone(faults):
    experiment = begin((1, 2))
    list(run_campaign(experiment))
    before = experiment.journal_path.read_text()
    assert isinstance(list(run_campaign(experiment, resumed=True))[-1], Completed)
    assert experiment.journal_path.read_text() == before


def test_measured_and_predicted_runs_never_meet(faults):
    experiment = begin((1, 2))
    kill_at(experiment, Proposed, 1)
    text = experiment.journal_path.read_text()
    finished = next(e for e in experiment.events() if isinstance(e, Finished))
    measured = finished.model_copy(update={"provenance": "measured"})
    experiment.journal_path.write_text(
        text.replace(finished.model_dump_json(), measured.model_dump_json())
    )
    with pytest.raises(AttuneError, match=r"holds measured runs.*predicted ones"):
        resume(experiment)


def test_a_lost_study_is_built_again_from_journal_and_results(faults):
    experiment = begin((1, 2, 4))
    kill_at(experiment, Proposed, 2)
    experiment.study_path.unlink()
    events = resume(experiment)
    assert len(runs(events, "reference")) == 1
    assert len({e.layout for e in runs(events, "candidate")}) == 2
    assert len(runs(events, "candidate")) == 2, "nothing is repeated"


@pytest.mark.parametrize("keep", [0, 7, 4096, 20000])
def test_a_damaged_study_is_one_message_or_goes_on(faults, keep):
    experiment = begin((1, 2, 4))
    kill_at(experiment, Proposed, 2)
    data = experiment.study_path.read_bytes()
    experiment.study_path.write_bytes(data[:keep])
    try:
        events = resume(experiment)
    except AttuneError as error:
        assert "study.db" in str(error) and "--resume" in str(error)
        experiment.study_path.unlink()
        events = resume(experiment)
    assert isinstance(events[-1], Completed)
    assert len(runs(events, "candidate")) == 2


def test_a_damaged_result_is_named_and_its_loss_is_no_proof(faults):
    experiment = begin((1, 2))
    kill_at(experiment, Verified, 2)
    result = experiment.run_folder(0) / "result.json"
    result.write_text("{")
    with pytest.raises(AttuneError, match=r"trials/0/result.json is damaged \([^\n]*\); mend"):
        resume(experiment)
    result.unlink()
    events = resume(experiment)
    (verified,) = [e for e in events if isinstance(e, Verified)]
    assert [c.status for c in verified.checks] == ["not run"]
    assert "trials/0/result.json is missing" in verified.checks[0].detail


def test_killed_between_the_last_events_journals_none_twice(faults):
    experiment = begin((1, 2))
    kill_at(experiment, Completed, None)
    events = resume(experiment)
    assert sum(isinstance(e, Verified) for e in events) == 1
    assert sum(isinstance(e, Stopped) for e in events) == 1
    assert isinstance(events[-1], Completed)
