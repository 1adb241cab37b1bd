"""The Slurm launcher against programs of Slurm's names that print what Slurm would."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from trial_jobs import FakeFramework, fake_job, h200_job

from attune.errors import AttuneError
from attune.trial.launchers import load_launcher, slurm_commands, slurm_job
from attune.trial.launchers.launcher import State
from attune.trial.launchers.slurm import SlurmLauncher
from attune.trial.launchers.slurm_job import SlurmHandle

STUB = """#!/bin/sh
echo "{name} $*" >> {folder}/calls
[ -e {folder}/{name}.err ] && {{ cat {folder}/{name}.err >&2; exit 1; }}
[ -e {folder}/{name}.out ] && cat {folder}/{name}.out
exit 0
"""
JOB = (
    "JobId=7 JobName=attune-1 UserId=root(0) JobState={state} Reason={reason} Dependency=(null) "
    "ExitCode={code} RunTime=00:00:09 TimeLimit=00:03:00 StartTime={start} EndTime={end} "
    "NodeList={nodes} BatchHost=node1 NumNodes=2\n"
)
FIELDS = {
    "reason": "None",
    "code": "0:0",
    "nodes": "node[1-2]",
    "start": "2026-11-30T20:00:00",
    "end": "2026-11-30T20:01:40",
}


class Cluster:
    """What Slurm's programs say, and what they were asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("sbatch", "squeue", "scontrol", "sacct", "scancel", "srun"):
            path = folder / name
            path.write_text(STUB.format(name=name, folder=folder))
            path.chmod(0o755)

    def says(self, name: str, text: str) -> None:
        (self.folder / f"{name}.err").unlink(missing_ok=True)
        (self.folder / f"{name}.out").write_text(text)

    def refuses(self, name: str, text: str) -> None:
        (self.folder / f"{name}.err").write_text(text)

    def job(self, state: str, **told: str) -> None:
        self.says("scontrol", JOB.format(state=state, **{**FIELDS, **told}))

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setattr(slurm_job.slurm, "node_names", lambda words: ("node1", "node2"))
    return Cluster(folder)


@pytest.fixture
def handle(slurm: Cluster, tmp_path: Path) -> SlurmHandle:
    (tmp_path / "logs").mkdir()
    return SlurmHandle("7", tmp_path, 0.01)


def ended(handle: SlurmHandle) -> tuple[int | None, str]:
    state = handle.poll()
    assert not state.running
    return state.exit_code, state.ended_by


@pytest.mark.parametrize(
    ("state", "told", "expected"),
    [
        ("COMPLETED", {}, (0, "program")),
        ("FAILED", {"code": "3:0", "reason": "NonZeroExitCode"}, (3, "program")),
        ("FAILED", {"code": "0:9", "reason": "RaisedSignal:9(Killed)"}, (-9, "program")),
        ("FAILED", {"code": "1:0", "reason": "JobLaunchFailure"}, (1, "scheduler")),
        ("TIMEOUT", {"code": "0:15", "reason": "TimeLimit"}, (-15, "limit")),
        ("NODE_FAIL", {"code": "0:0"}, (-15, "scheduler")),
        ("PREEMPTED", {"code": "0:15"}, (-15, "scheduler")),
        ("CANCELLED", {"code": "0:15"}, (-15, "scheduler")),
        ("OUT_OF_MEMORY", {"code": "0:125"}, (-9, "program")),
    ],
)
def test_ends(
    slurm: Cluster,
    handle: SlurmHandle,
    state: str,
    told: dict[str, str],
    expected: tuple[int, str],
) -> None:
    slurm.job(state, **told)
    assert ended(handle) == expected
    assert handle.poll().nodes == ("node1", "node2")
    assert (state in handle.poll().reason) == (expected[1] != "program")
    assert handle.elapsed_s() == 100.0


def test_waits_with_slurms_reason_and_costs_nothing(slurm: Cluster, handle: SlurmHandle) -> None:
    slurm.job("PENDING", reason="Resources", nodes="", start="Unknown", end="Unknown")
    assert handle.poll() == State(running=True, queued=True, reason="Resources")
    assert handle.elapsed_s() == 0.0
    slurm.job("RUNNING")
    assert handle.poll() == State(running=True, nodes=("node1", "node2"))
    assert handle.elapsed_s() > 0
    slurm.job("COMPLETING")
    assert handle.poll().running


def test_cancelled_in_the_queue_costs_nothing(slurm: Cluster, handle: SlurmHandle) -> None:
    slurm.job("PENDING", nodes="(null)")
    handle.poll()
    slurm.job("CANCELLED", nodes="(null)")
    handle.poll()
    assert handle.elapsed_s() == 0.0


def test_a_job_that_would_wait_for_ever_is_given_up(
    slurm: Cluster, handle: SlurmHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_job, "_HOPELESS_AFTER_S", -1.0)
    slurm.job("PENDING", reason="PartitionNodeLimit", nodes="")
    assert handle.poll().running
    assert ended(handle) == (-15, "scheduler")
    assert "would wait for ever: PartitionNodeLimit" in handle.poll().reason
    assert "scancel 7" in slurm.calls


def test_a_slurm_that_does_not_answer_changes_nothing(slurm: Cluster, handle: SlurmHandle) -> None:
    slurm.job("RUNNING")
    before = handle.poll()
    slurm.refuses("scontrol", "Unable to contact slurm controller (connect failure)")
    assert handle.poll() == before


def test_a_forgotten_job_is_asked_of_the_accounting(slurm: Cluster, handle: SlurmHandle) -> None:
    slurm.refuses("scontrol", "slurm_load_jobs error: Invalid job id specified")
    slurm.says("sacct", "FAILED|5:0|node[1-2]|2026-11-30T20:00:00|2026-11-30T20:00:30\n")
    assert ended(handle) == (5, "program")
    assert handle.elapsed_s() == 30.0


@pytest.mark.parametrize(("left", "expected"), [("0\n", (0, "program")), (None, (-9, "scheduler"))])
def test_without_accounting_the_job_itself_left_its_code(
    slurm: Cluster,
    handle: SlurmHandle,
    tmp_path: Path,
    left: str | None,
    expected: tuple[int, str],
) -> None:
    slurm.refuses("scontrol", "slurm_load_jobs error: Invalid job id specified")
    slurm.refuses("sacct", "Slurm accounting storage is disabled")
    if left:
        (tmp_path / "logs" / "exit-code").write_text(left)
    assert ended(handle) == expected


def test_cancel_waits_for_the_end_and_is_the_programs_own(
    slurm: Cluster, handle: SlurmHandle
) -> None:
    slurm.job("RUNNING")
    stub = slurm.folder / "scancel"
    told = JOB.format(state="CANCELLED", **{**FIELDS, "code": "0:15"})
    stub.write_text(f"#!/bin/sh\nprintf '%s' '{told}' > {slurm.folder}/scontrol.out\n")
    handle.cancel()
    assert ended(handle) == (-15, "program")
    handle.cancel()


def options(**told: object) -> SlurmLauncher:
    return SlurmLauncher.of(told)


def test_words_for_sbatch(slurm: Cluster, tmp_path: Path) -> None:
    slurm.says("sbatch", "4711;cluster\n")
    launcher = options(
        partition="h200", account="me", reservation="r", exclude="node3,node[5,7]",
        sbatch="--comment=x --mail-type=END", queue_limit_s="60",
    )  # fmt: skip
    job = replace(h200_job(128), limit_s=1800.0)
    (tmp_path / "logs").mkdir()
    handle = launcher.start(job, FakeFramework().prepare(job), tmp_path)
    assert handle.job_id == "4711"
    (asked,) = [call for call in slurm.calls if call.startswith("sbatch")]
    for words in (
        "--nodes=16 --ntasks-per-node=1 --time=32 --no-requeue --exclusive --partition=h200",
        "--account=me --reservation=r --gres=gpu:8 --exclude=node3,node[5,7] --comment=x",
        f"--chdir={tmp_path} --output=logs/launcher.log",
    ):
        assert words in asked
    assert '"job_id": "4711"' in (tmp_path / "launch.json").read_text()
    assert launcher.queue_limit_s == 60
    assert "exclude=node3,node[5,7],node9" in " ".join(launcher.excluding(("node9",)).orders(job))


def test_what_a_site_does_not_have_is_not_asked_for(slurm: Cluster) -> None:
    orders = options(gres="none", exclusive="false").orders(h200_job(128))
    assert not any(word.startswith(("--gres", "--exclusive", "--partition")) for word in orders)
    assert not any(word.startswith("--gres") for word in options().orders(fake_job()))


def test_orders_of_the_template_come_first(slurm: Cluster, tmp_path: Path) -> None:
    slurm.says("sbatch", "1\n")
    template = tmp_path / "site.sh"
    template.write_text('#SBATCH --qos=high\nsrun $ATTUNE_SRUN sh "$ATTUNE_NODE_SCRIPT"\n')
    place = tmp_path / "a b"
    (place / "logs").mkdir(parents=True)
    options(template=str(template)).start(fake_job(), FakeFramework().prepare(fake_job()), place)
    script = (place / "job.sh").read_text().splitlines()
    assert script[:2] == ["#!/bin/bash", "#SBATCH --qos=high"]
    assert script[2] == f"cd '{place}'"
    assert sys.executable in (place / "node.sh").read_text()


def test_a_job_is_found_by_its_name_where_attune_died_before_the_answer(
    slurm: Cluster, tmp_path: Path
) -> None:
    slurm.refuses("sbatch", "sbatch: error: Socket timed out on send/recv operation")
    (tmp_path / "logs").mkdir()
    with pytest.raises(AttuneError, match=r"did not take the job: .*Socket timed out"):
        options().start(fake_job(), FakeFramework().prepare(fake_job()), tmp_path)
    assert options().attach(fake_job(), tmp_path) is None
    slurm.says("squeue", "12\n")
    slurm.job("RUNNING")
    found = options().attach(fake_job(), tmp_path)
    assert found is not None and found.job_id == "12"
    started = options().start(fake_job(), FakeFramework().prepare(fake_job()), tmp_path)
    assert started.job_id == "12"


def test_a_slurm_that_restarts_is_waited_for(
    slurm: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_commands, "_RETRY_S", 0.0)
    stub = slurm.folder / "sbatch"
    stub.write_text(
        f"#!/bin/sh\n[ -e {slurm.folder}/up ] && exit 0\n: > {slurm.folder}/up\n"
        "echo 'Unable to contact slurm controller' >&2\nexit 1\n"
    )
    options().check(fake_job(), ())
    monkeypatch.setattr(slurm_commands, "_PATIENCE_S", -1.0)
    (slurm.folder / "up").unlink()
    with pytest.raises(AttuneError, match="does not answer: Unable to contact"):
        options().check(fake_job(), ())


def test_refusal_and_missing_slurm(
    slurm: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slurm.refuses("sbatch", "allocation failure: Invalid account")
    with pytest.raises(AttuneError, match=r"Slurm refuses 1 nodes: .*Invalid account; mend it"):
        options().check(fake_job(), ())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AttuneError, match="needs `sbatch`, which is not on the PATH"):
        options().check(fake_job(), ())
    with pytest.raises(AttuneError, match="starts runs inside an allocation, and there is none"):
        load_launcher("slurm", {"mode": "srun"})
