from __future__ import annotations

import itertools

import numpy as np
import pytest

from attune.catalog import load_cluster, load_model
from attune.estimate import estimate_step_time
from attune.estimate.passes import estimate_passes
from attune.estimate.replay import replay, timeline
from attune.layout import LayoutTable, parse_layout
from attune.workload import Workload


@pytest.mark.parametrize(("stages", "chunks", "microbatches"), [(1, 1, 3), (4, 1, 8), (4, 2, 8)])
def test_equal_stages_agree_with_the_closed_form(
    stages: int, chunks: int, microbatches: int
) -> None:
    """m W + (PP - 1) W / VPP, W the time of all chunks of a stage."""
    forward, backward = np.full((1, stages, chunks), 1.0), np.full((1, stages, chunks), 2.0)
    total = replay(forward, backward, np.zeros(1), microbatches)
    whole = 3.0 * chunks
    assert total[0] == pytest.approx(microbatches * whole + (stages - 1) * whole / chunks)


def test_uneven_stages_stay_near_the_closed_form() -> None:
    """m max(W) + sum(W) - max(W): what the table takes for 1F1B."""
    random = np.random.default_rng(1)
    work = random.uniform(0.8, 1.2, (50, 8, 1))
    total = replay(work, 2 * work, np.zeros(50), 32)
    stages = 3 * work[:, :, 0]
    closed = 32 * stages.max(axis=1) + stages.sum(axis=1) - stages.max(axis=1)
    assert np.abs(total / closed - 1).max() < 0.04


def test_transfers_only_slow() -> None:
    work = np.full((2, 4, 2), 1.0)
    none, some = replay(work, work, np.array([0.0, 0.1]), 8)
    assert none < some < none + 8 * 2 * 2 * 2 * 0.1


@pytest.mark.parametrize(("chunks", "microbatches"), [(1, 0), (2, 6)])
def test_what_cannot_run_is_refused(chunks: int, microbatches: int) -> None:
    work = np.ones((1, 4, chunks))
    with pytest.raises(ValueError, match="cannot run"):
        replay(work, work, np.zeros(1), microbatches)


@pytest.mark.parametrize(("stages", "chunks", "microbatches"), [(1, 1, 3), (4, 1, 8), (4, 2, 8)])
def test_a_stage_runs_one_pass_at_a_time(stages: int, chunks: int, microbatches: int) -> None:
    work = np.random.default_rng(2).uniform(0.5, 1.5, (1, stages, chunks))
    passes = list(timeline(work, 2 * work, np.zeros(1), microbatches))
    assert len({event for event, _, _ in passes}) == 2 * stages * chunks * microbatches
    assert max(end[0] for _, _, end in passes) == replay(work, 2 * work, np.zeros(1), microbatches)
    for stage in range(stages):
        own = [(start[0], end[0]) for event, start, end in passes if event[0] == stage]
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(own))
        busy = sum(end - start for start, end in own)
        assert busy == pytest.approx(3 * microbatches * work[0, stage].sum())


@pytest.mark.parametrize("words", ["tp=4 pp=16 ep=8 first=5 last=3 sp=true", "tp=4 pp=4 ep=8"])
def test_passes_add_up_to_the_estimate(words: str) -> None:
    model, cluster = load_model("glm-4.5"), load_cluster("h200", 128)
    layout, workload = parse_layout(words), Workload()
    passes = estimate_passes(model, cluster, workload, layout)
    parts = estimate_step_time(model, cluster, workload, LayoutTable.of([layout])).parts
    work = (passes.forward + passes.backward).sum(axis=1).max() * passes.microbatches
    names = ("compute", "attention", "tensor", "context", "expert", "host")
    told = sum(float(parts[name][0]) for name in names)
    assert work == pytest.approx(told, rel=0.02)
    assert passes.forward.shape == (layout.pp, 1) and (passes.backward > passes.forward).all()
