"""The experiment's folder: journal, lock, inputs."""

from __future__ import annotations

import multiprocessing
import shutil
from pathlib import Path

import pytest

from attune.catalog import load_cluster, load_model
from attune.errors import AttuneError
from attune.experiment import Experiment, Inputs, list_experiments
from attune.experiment.events import Interrupted, Progress, Stopped
from attune.layout.space import load_space
from attune.verbs.tune import TuneRequest, tune
from attune.workload import Workload


def make_inputs(name: str = "one") -> Inputs:
    return Inputs(
        experiment=name,
        model=load_model("tiny-dense"),
        cluster=load_cluster("cpu", 4),
        workload=Workload(row_tokens=128, global_batch=16, precision="fp32"),
        space=load_space("tiny"),
        launcher="simulated",
        launcher_reason="asked for",
    )


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ATTUNE_HOME", str(tmp_path))
    return tmp_path


def test_inputs_come_back_as_they_went() -> None:
    inputs = make_inputs()
    Experiment.create(inputs)
    assert Experiment.open("one").inputs() == inputs


def test_an_existing_name_is_refused() -> None:
    Experiment.create(make_inputs())
    with pytest.raises(AttuneError, match="--resume one"):
        Experiment.create(make_inputs())


@pytest.mark.parametrize(
    "name", ["..", "../out", "/tmp/out", "a/b", "-x", "a\nb", "[bold]", "x" * 400]
)
def test_a_name_that_is_no_plain_folder_is_refused(home: Path, name: str) -> None:
    with pytest.raises(AttuneError, match="letters, digits") as refused:
        Experiment.create(make_inputs(name))
    assert len(str(refused.value)) < 250
    assert not list(home.iterdir())


def test_an_unknown_experiment_names_the_known() -> None:
    Experiment.create(make_inputs("known"))
    with pytest.raises(AttuneError, match="known"):
        Experiment.open("unknown")


def test_a_moved_folder_opens(tmp_path: Path) -> None:
    Experiment.create(make_inputs()).folder.rename(tmp_path / "elsewhere")
    assert Experiment.open(str(tmp_path / "elsewhere")).inputs().experiment == "one"


def test_a_copy_goes_on_in_its_own_folder(tmp_path: Path) -> None:
    original = Experiment.create(make_inputs())
    shutil.copytree(original.folder, tmp_path / "elsewhere")
    events = tune(TuneRequest(resume=str(tmp_path / "elsewhere"))).events()
    next(events)
    assert (tmp_path / "elsewhere" / "journal.jsonl").exists()
    assert not original.journal_path.exists()


def test_journal_survives_a_line_cut_short() -> None:
    experiment = Experiment.create(make_inputs())
    experiment.append(Stopped(reason="first"))
    with experiment.journal_path.open("a") as journal:
        journal.write('{"kind": "stopp')
    assert experiment.events() == [Stopped(reason="first")]
    experiment.mend_journal()
    experiment.append(Stopped(reason="second"))
    assert [e.reason for e in experiment.events() if isinstance(e, Stopped)] == ["first", "second"]


def test_a_damaged_line_in_the_middle_is_named() -> None:
    experiment = Experiment.create(make_inputs())
    experiment.journal_path.write_text("{}\n" + Stopped(reason="x").model_dump_json() + "\n")
    with pytest.raises(AttuneError, match="line 1 is damaged"):
        experiment.events()


def test_progress_is_not_journaled() -> None:
    experiment = Experiment.create(make_inputs())
    experiment.append(Progress(run=0, step=1, steps=20, seconds=1.0, loss=None))
    experiment.append(Interrupted(run=0, layout="tp=1 pp=1", gpu_hours=0.1))
    assert [e.kind for e in experiment.events()] == ["interrupted"]


def test_damaged_inputs_name_the_field() -> None:
    experiment = Experiment.create(make_inputs())
    text = experiment.inputs_path.read_text().replace("trials: 12", "trials: many")
    experiment.inputs_path.write_text(text)
    with pytest.raises(AttuneError, match="trials"):
        experiment.inputs()


def _hold(folder: Path, ready: object, release: object) -> None:
    with Experiment(folder).locked():
        ready.set()  # type: ignore[attr-defined]
        release.wait(20)  # type: ignore[attr-defined]


def test_a_locked_experiment_is_refused() -> None:
    experiment = Experiment.create(make_inputs())
    context = multiprocessing.get_context("spawn")
    ready, release = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(experiment.folder, ready, release))
    holder.start()
    try:
        assert ready.wait(20)
        with pytest.raises(AttuneError, match="in use by another process"), experiment.locked():
            pass
    finally:
        release.set()
        holder.join(20)
    with experiment.locked():
        pass


def test_list_is_oldest_first() -> None:
    for name in ("b", "a"):
        Experiment.create(make_inputs(name))
    assert {e.name for e in list_experiments()} == {"a", "b"}
