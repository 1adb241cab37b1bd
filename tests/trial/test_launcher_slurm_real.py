"""The Slurm launcher on a real Slurm of this machine."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from launcher_conformance import LIMIT_S, LauncherConformance, wait, wait_for_text
from slurm_cluster import slurm
from trial_jobs import FakeFramework, fake_job, h200_job, worker_job

from attune.catalog import load_cluster
from attune.errors import AttuneError
from attune.trial import Job, Step, run
from attune.trial.frameworks import FRAMEWORKS, Command
from attune.trial.launchers import Handle, Launcher, load_launcher
from attune.trial.stand_in import Fault, stand_in_command

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[Path]:
    with slurm(16) as folder:
        yield folder


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    before = queue()
    yield
    assert queue() == before


def queue() -> list[str]:
    asked = ["squeue", "--noheader", "--format=%i %T"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


class TestSlurm(LauncherConformance):
    module = "test_launcher_slurm_real:TestSlurm"
    nodes = 2
    survives = True
    queues = True

    def launcher(self) -> Launcher:
        return load_launcher("slurm", {"poll_s": "0.2"})

    def waiting(self) -> Launcher:
        return load_launcher("slurm", {"poll_s": "0.2", "queue_limit_s": "1", "sbatch": "--hold"})


@pytest.fixture(scope="class")
def allocation(cluster: Path) -> Iterator[str]:
    """Four nodes that this process holds."""
    asked = ["salloc", "--no-shell", "--nodes=4", "--exclusive"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    number = done.stderr.split("job allocation ")[1].split()[0]
    os.environ["SLURM_JOB_ID"] = number
    yield number
    del os.environ["SLURM_JOB_ID"]
    subprocess.run(["scancel", number], check=True)
    while queue():
        time.sleep(0.2)


@pytest.mark.usefixtures("allocation")
class TestAllocation(LauncherConformance):
    """Steps inside an allocation end with the attune that started them."""

    module = "test_launcher_slurm_real:TestAllocation"
    nodes = 2

    def launcher(self) -> Launcher:
        return load_launcher("slurm")

    def test_two_at_a_time_on_nodes_of_their_own(self, tmp_path: Path) -> None:
        launcher = self.launcher()
        job, command = self.job(fault="await"), FakeFramework().prepare(self.job(fault="await"))
        places = [tmp_path / name for name in "ab"]
        for place in places:
            (place / "logs").mkdir(parents=True)
        handles = [launcher.start(job, command, place) for place in places]
        for handle in handles:
            wait_for_text(handle, "hanging")
        nodes = [handle.poll().nodes for handle in handles]
        assert nodes == [("node1", "node2"), ("node3", "node4")]
        with pytest.raises(AttuneError, match=r"0 nodes of allocation .* are free"):
            self.start_with(launcher, job, tmp_path / "c")
        for place in places:
            (place / "go").touch()
        assert [wait(handle).exit_code for handle in handles] == [0, 0]
        handle = self.start_with(launcher, self.job(), tmp_path / "d")
        assert wait(handle).nodes == ("node1", "node2")

    def start_with(self, launcher: Launcher, job: Job, directory: Path) -> Handle:
        (directory / "logs").mkdir(parents=True)
        return launcher.start(job, FakeFramework().prepare(job), directory)

    def test_more_nodes_than_allocated(self, tmp_path: Path) -> None:
        job = replace(self.job(), cluster=load_cluster("cpu", 64))
        with pytest.raises(AttuneError, match="has 4 usable nodes, and a run needs 8"):
            run(job, self.launcher(), tmp_path / "trial")
        excluding = load_launcher("slurm", {"exclude": "node[1,2],node3"})
        with pytest.raises(AttuneError, match="has 1 usable nodes"):
            run(self.job(), excluding, tmp_path / "trial")


def test_refusals_are_in_slurms_words(tmp_path: Path) -> None:
    launcher = load_launcher("slurm", {"partition": "none"})
    with pytest.raises(AttuneError, match="invalid partition specified: none"):
        run(fake_job(), launcher, tmp_path / "trial")
    assert not (tmp_path / "trial").exists()


def test_worker_of_attune_on_two_nodes(tmp_path: Path) -> None:
    """Real training over gloo, data parallel over the nodes: the same losses as on one."""
    job = worker_job(LIMIT_S)
    two = run(job, load_launcher("slurm", {"poll_s": "0.2"}), tmp_path / "two")
    assert two.outcome == "completed", two
    assert two.nodes == ("node1", "node2")
    one = run(
        replace(job, cluster=load_cluster("cpu", 2)), load_launcher("local"), tmp_path / "one"
    )
    assert two.losses == pytest.approx(one.losses, rel=1e-6)


class StandIn(FakeFramework):
    """The stand-in, speaking for all ranks on the first node."""

    def prepare(self, job: Job) -> Command:
        fault = job.worker_options.get("fault")
        told = Fault(name=fault, step=2) if fault else None
        plain = replace(job, framework="megatron-core", worker_options={})
        command = stand_in_command(plain, fault=told)
        return replace(command, starter="program")


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [(None, "completed"), ("oom", "out_of_memory"), ("nccl_timeout", "infrastructure")],
)
def test_stand_in_on_128_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str | None, outcome: str
) -> None:
    monkeypatch.setitem(FRAMEWORKS, "stand-in", "test_launcher_slurm_real:StandIn")
    told = {"fault": fault} if fault else {}
    job = replace(h200_job(128), framework="stand-in", limit_s=LIMIT_S, worker_options=told)
    result = run(job, load_launcher("slurm", {"poll_s": "0.2"}), tmp_path)
    assert result.outcome == outcome, result
    assert len(result.nodes) == 16
    assert result.provenance == "predicted"


def test_a_lost_job_and_one_that_waits_for_ever_are_the_schedulers_doing(tmp_path: Path) -> None:
    def kill(step: Step) -> bool:
        if step.step == 1:
            subprocess.run(["scancel", "--user=root"], check=True)
        return True

    launcher = load_launcher("slurm", {"poll_s": "0.2"})
    result = run(fake_job(pause="0.5"), launcher, tmp_path / "lost", watch=kill)
    assert (result.outcome, result.log_class) == ("infrastructure", "SCHEDULER"), result
    assert "CANCELLED" in result.evidence


def test_site_template_and_excluded_nodes(tmp_path: Path) -> None:
    template = tmp_path / "mine.sh"
    template.write_text(
        '#SBATCH --comment=ours\nenv IN_CONTAINER=yes srun $ATTUNE_SRUN sh "$ATTUNE_NODE_SCRIPT"\n'
    )
    told = {"poll_s": "0.2", "template": str(template), "exclude": "node[1-3],node5"}
    result = run(fake_job(), load_launcher("slurm", told), tmp_path / "trial")
    assert result.outcome == "completed", result
    assert result.nodes == ("node4",)
    assert "#SBATCH --comment=ours" in (tmp_path / "trial" / "job.sh").read_text()
