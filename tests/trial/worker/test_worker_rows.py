"""Synthetic rows are deterministic, independent of the layout, and have structure."""

from __future__ import annotations

import numpy as np
import pytest

from attune.trial.worker.rows import FOLLOWS, SyntheticRows


def _rows(seed: int = 1, vocabulary: int = 1024) -> SyntheticRows:
    return SyntheticRows(vocabulary=vocabulary, row_tokens=128, seed=seed)


def test_a_row_depends_on_seed_step_and_row_alone() -> None:
    whole = _rows().rows(3, range(16))
    parts = np.concatenate([_rows().rows(3, range(8, 16)), _rows().rows(3, range(8))])
    assert np.array_equal(whole, np.roll(parts, 8, axis=0))
    assert not np.array_equal(whole, _rows().rows(4, range(16)))
    assert not np.array_equal(whole, _rows(seed=2).rows(3, range(16)))


@pytest.mark.parametrize("vocabulary", [2, 7, 1024])
def test_tokens_are_in_the_vocabulary(vocabulary: int) -> None:
    tokens = _rows(vocabulary=vocabulary).rows(0, range(4))
    assert tokens.shape == (4, 129)
    assert tokens.min() >= 0 and tokens.max() < vocabulary


def test_a_token_tells_its_successor() -> None:
    tokens = _rows().rows(0, range(64))
    pairs: dict[int, dict[int, int]] = {}
    for before, after in zip(tokens[:, :-1].ravel(), tokens[:, 1:].ravel()):
        counts = pairs.setdefault(int(before), {})
        counts[int(after)] = counts.get(int(after), 0) + 1
    common = [counts for counts in pairs.values() if sum(counts.values()) > 50]
    shares = [max(counts.values()) / sum(counts.values()) for counts in common]
    assert len(common) > 5
    assert np.mean(shares) == pytest.approx(FOLLOWS, abs=0.1)
