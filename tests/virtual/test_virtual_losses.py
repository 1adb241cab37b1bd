from __future__ import annotations

import math
from itertools import pairwise

import pytest

from attune.catalog import load_cluster, load_model
from attune.layout import parse_layout
from attune.virtual import VirtualCluster
from attune.workload import Workload

LAYOUTS = ("tp=4 pp=16 ep=8 first=5 last=3", "tp=2 pp=16 ep=8 first=5 last=3 recompute=full")


def _play(text: str, seed: int = 0, workload: Workload | None = None):
    cluster = load_cluster("h200", 128)
    virtual = VirtualCluster(load_model("glm-4.5"), cluster, workload or Workload(), seed=seed)
    return virtual.play(parse_layout(text), seed)


def test_losses_start_at_the_logarithm_of_the_vocabulary_and_fall() -> None:
    losses = _play(LAYOUTS[0]).losses
    assert losses[0] == pytest.approx(math.log(151552), rel=0.02)
    assert losses[-1] < 0.75 * losses[0]
    assert max(b - a for a, b in pairwise(losses)) < 0.1


def test_layouts_and_clusters_differ_only_by_rounding() -> None:
    first, second = _play(LAYOUTS[0], seed=0), _play(LAYOUTS[1], seed=5)
    assert first.losses != second.losses
    assert first.losses == pytest.approx(second.losses, rel=8e-6)
    assert first.grad_norms == pytest.approx(second.grad_norms, rel=8e-6)


def test_the_workload_seed_changes_the_rows() -> None:
    other = _play(LAYOUTS[0], workload=Workload(seed=99))
    assert other.losses != pytest.approx(_play(LAYOUTS[0]).losses, rel=1e-4)
