"""Which tokens a context-parallel rank holds."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("megatron.core")

from attune.trial.worker.context import places  # noqa: E402


def test_a_rank_holds_a_chunk_from_either_end() -> None:
    assert places(8, 0, 2).tolist() == [0, 1, 6, 7]
    assert places(8, 1, 2).tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_ranks_share_a_row_and_its_causal_work_evenly(size: int) -> None:
    held = [places(64, rank, size) for rank in range(size)]
    assert sorted(torch.cat(held).tolist()) == list(range(64))
    assert len({int((part + 1).sum()) for part in held}) == 1
