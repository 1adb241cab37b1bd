"""The Ray launcher on a real Ray cluster of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from launcher_conformance import LIMIT_S, LauncherConformance
from ray_cluster import ray_cluster
from trial_jobs import FakeFramework, fake_job, worker_job

from attune.trial import Job, run
from attune.trial.frameworks import FRAMEWORKS, Command
from attune.trial.launchers import Launcher, load_launcher

pytestmark = pytest.mark.ray

ADDRESS = "ATTUNE_TEST_RAY"


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    before = {k: os.environ.pop(k) for k in list(os.environ) if k.startswith("RAY_ADDRESS")}
    with ray_cluster(2) as address:
        os.environ[ADDRESS] = address
        yield
    del os.environ[ADDRESS]
    os.environ.update(before)


def launcher(**options: str) -> Launcher:
    return load_launcher("ray", {"address": os.environ[ADDRESS], "poll_s": "0.3", **options})


class TestRay(LauncherConformance):
    module = "test_launcher_ray_real:TestRay"
    nodes = 2
    survives = True
    queues = True

    def launcher(self) -> Launcher:
        return launcher()

    def waiting(self) -> Launcher:
        return launcher(queue_limit_s="1", exclude="127.0.0.1")


def test_worker_of_attune_on_two_nodes(tmp_path: Path) -> None:
    """Real training over gloo, data parallel over the nodes."""
    result = run(worker_job(LIMIT_S), launcher(), tmp_path)
    assert result.outcome == "completed", result
    assert len(result.nodes) == 2
    assert all(loss is not None for loss in result.losses)


DRIVER = """
import os, ray
from attune.trial.result import Step
from attune.trial.worker.log import write_step

@ray.remote
def seen():
    return os.environ.get("NCCL_OF_THE_JOB")

ray.init(log_to_driver=False)
assert ray.get(seen.remote()) == "reaches the workers"
for index in range(4):
    print(write_step(Step(step=index, seconds=0.1, loss=5.0, grad_norm=1.0), 4, 1e-3))
"""


class Driver(FakeFramework):
    """A trainer with a driver of its own, as miles and slime have."""

    def prepare(self, job: Job) -> Command:
        command = super().prepare(job)
        variables = {**command.environment, "NCCL_OF_THE_JOB": "reaches the workers"}
        return replace(command, argv=("-c", DRIVER), environment=variables, starter="ray_driver")


def test_a_driver_and_its_workers_see_the_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FRAMEWORKS, "driver", "test_launcher_ray_real:Driver")
    job = replace(TestRay().job(), framework="driver")
    result = run(job, launcher(), tmp_path)
    assert result.outcome == "completed", result
    assert result.wall_s > 0


def test_a_driver_brings_its_own_cluster_where_the_launcher_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FRAMEWORKS, "driver", "test_launcher_ray_real:Driver")
    stub = tmp_path / "programs" / "ray"
    stub.parent.mkdir()
    # Whoever it starts is the cluster of this module; what it is asked is written down.
    stub.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\n')
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stub.parent}:{os.environ['PATH']}")
    job = replace(fake_job(2), framework="driver", worker_options={})
    monkeypatch.setattr("test_launcher_ray_real.DRIVER", DRIVER.split("ray.init")[0] + STEPS)
    result = run(job, load_launcher("local"), tmp_path / "trial")
    assert result.outcome == "completed", result
    asked = (tmp_path / "asked").read_text()
    assert "start --disable-usage-stats --head --node-ip-address=127.0.0.1 --port=" in asked
    assert asked.rstrip().endswith("stop --force")


STEPS = """
for index in range(4):
    print(write_step(Step(step=index, seconds=0.1, loss=5.0, grad_norm=1.0), 4, 1e-3))
"""
