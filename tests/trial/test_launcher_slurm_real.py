"""The Slurm launcher on a real Slurm of this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from launcher_conformance import LauncherConformance
from slurm_cluster import slurm
from trial_jobs import fake_job

from attune.errors import AttuneError
from attune.trial import run
from attune.trial.launchers import Launcher, load_launcher

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[Path]:
    with slurm(16) as folder:
        yield folder


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    assert queue() == []


def queue() -> list[str]:
    done = subprocess.run(["squeue", "--noheader"], capture_output=True, text=True, check=True)
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


def test_refusals_are_in_slurms_words(tmp_path: Path) -> None:
    launcher = load_launcher("slurm", {"partition": "none"})
    with pytest.raises(AttuneError, match="invalid partition specified: none"):
        run(fake_job(), launcher, tmp_path / "trial")
    assert not (tmp_path / "trial").exists()
