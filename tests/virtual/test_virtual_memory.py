from __future__ import annotations

import pytest

from attune.catalog import load_cluster, load_model
from attune.layout import parse_layout
from attune.virtual import VirtualCluster
from attune.workload import Workload


def _play(text: str, gpu: str = "h200", model: str = "glm-4.5", count: int = 128):
    cluster = VirtualCluster(load_model(model), load_cluster(gpu, count), Workload())
    return cluster, cluster.play(parse_layout(text), 0)


@pytest.mark.parametrize(
    ("text", "gpu", "phase", "steps"),
    [
        ("tp=1 pp=1 ep=8", "h200", "build", 0),
        ("tp=8 pp=8 ep=16 first=10 last=10 recompute=full", "a100-40", "optimizer", 0),
        ("tp=1 pp=8 ep=16 first=10 last=10", "h200", "forward", 0),
        ("tp=4 pp=16 vpp=2 ep=8 first=4 last=4", "h200", "forward", 1),
    ],
)
def test_a_layout_too_large_runs_out_where_it_would(
    text: str, gpu: str, phase: str, steps: int
) -> None:
    cluster, performance = _play(text, gpu)
    trouble = performance.out_of_memory
    assert trouble is not None
    assert trouble.phase == phase
    assert len(performance.step_times_s) == len(performance.losses) == steps
    assert 0 < trouble.free_gib < trouble.requested_gib
    ranks = 128 // parse_layout(text).pp
    assert trouble.rank // ranks == trouble.stage
    assert max(performance.reserved_gib) < cluster.cluster.gpu.memory_gib


def test_a_large_loss_runs_out_in_the_backward_pass_of_the_last_stage() -> None:
    _, performance = _play(
        "tp=1 pp=2 rows=4 recompute=full", gpu="a100-40", model="qwen3-8b", count=8
    )
    trouble = performance.out_of_memory
    assert trouble is not None
    assert (trouble.stage, trouble.phase) == (1, "backward")


def test_reserved_exceeds_allocated_within_the_device() -> None:
    _, performance = _play("tp=4 pp=16 ep=8 first=5 last=3")
    for allocated, reserved in zip(performance.allocated_gib, performance.reserved_gib):
        assert allocated < reserved < 1.1 * allocated
    assert 90 < max(performance.reserved_gib) < 125


def test_runs_of_one_layout_differ_a_little_in_memory() -> None:
    cluster, first = _play("tp=4 pp=16 ep=8 first=5 last=3")
    second = cluster.play(parse_layout("tp=4 pp=16 ep=8 first=5 last=3"), 1)
    peaks = max(first.allocated_gib), max(second.allocated_gib)
    assert peaks[0] != peaks[1]
    assert peaks[0] == pytest.approx(peaks[1], rel=0.02)
