"""The Ray launcher on a real Ray cluster of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from launcher_conformance import LauncherConformance
from ray_cluster import ray_cluster

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
