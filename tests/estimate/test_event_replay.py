from __future__ import annotations

import numpy as np
import pytest

from attune.estimate.replay import replay


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
