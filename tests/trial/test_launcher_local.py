"""The launcher of this machine: contract, no orphan, missing torch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from launcher_conformance import LauncherConformance
from processes import gone
from trial_jobs import fake_job

from attune.catalog import load_cluster
from attune.errors import AttuneError
from attune.trial import Job, run
from attune.trial.launchers import Launcher, load_launcher
from attune.trial.launchers import local as local_module
from attune.trial.launchers.choose import Installed

_HERE = Path(__file__).resolve().parent


class TestLocal(LauncherConformance):
    module = "test_launcher_local:TestLocal"

    def launcher(self) -> Launcher:
        return load_launcher("local")


# Killed attune takes all with it; a killed guard takes torchrun and the ranks with it.
@pytest.mark.parametrize(("victim", "fault"), [("attune", "hang"), ("guard", "wait")])
def test_nothing_outlives_a_kill(tmp_path: Path, victim: str, fault: str) -> None:
    marker = f"mark-{tmp_path}"
    program = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "from pathlib import Path\n"
        "from launcher_conformance import wait\n"
        "from test_launcher_local import TestLocal\n"
        "from trial_jobs import fake_job\n"
        f"handle = TestLocal().start(fake_job(fault={fault!r}), Path(sys.argv[1]))\n"
        "print(handle.job_id, flush=True)\n"
        "wait(handle)\n"
    )
    arguments = [str(tmp_path), str(_HERE), str(_HERE.parents[1])]
    environment = {**os.environ, "ATTUNE_TEST_MARK": marker}
    attune = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, env=environment
    )
    assert attune.stdout is not None
    guard = int(attune.stdout.readline())
    log = tmp_path / "logs" / "rank-0.log"
    end = time.monotonic() + 300
    while not (log.exists() and "hanging" in log.read_text()):
        assert time.monotonic() < end
        time.sleep(0.05)
    os.kill(attune.pid if victim == "attune" else guard, signal.SIGKILL)
    attune.wait()
    assert gone(marker)


def test_missing_torch_is_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_module, "_installed", lambda module: module != "torch")
    with pytest.raises(AttuneError, match=r"torch.*pip install attune\[train\]") as caught:
        run(fake_job(), load_launcher("local"), tmp_path / "trial")
    assert caught.value.exit_code == 2
    assert not (tmp_path / "trial").exists()


def test_more_than_one_node_is_refused(tmp_path: Path) -> None:
    job = fake_job()
    wide = Job(
        model=job.model,
        cluster=load_cluster("cpu", 16),
        workload=job.workload,
        layout=job.layout,
        framework="fake",
    )
    with pytest.raises(AttuneError, match="one node"):
        run(wide, load_launcher("local"), tmp_path / "trial")


@pytest.mark.parametrize("installed", [(), ("NVIDIA A100-SXM4-80GB",)])
def test_another_gpu_is_never_measured_under_the_name_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: tuple[str, ...]
) -> None:
    parts = [Installed(name=name, memory_gib=80.0) for name in installed]
    monkeypatch.setattr(local_module, "installed_gpus", lambda: parts)
    job = replace(fake_job(), cluster=load_cluster("h200", 8))
    with pytest.raises(AttuneError, match=r"needs 8 H200.*has 0 of them.*--launcher simulated"):
        run(job, load_launcher("local"), tmp_path / "trial")
    assert not (tmp_path / "trial").exists()
