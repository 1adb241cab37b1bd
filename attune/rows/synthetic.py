"""Synthetic rows: deterministic by seed, and learnable within 20 steps.

Tokens come in pairs. A token is followed by its partner with probability 3/4, and else by a
fresh draw from Zipf's law; which token has which rank follows from the seed. Every row has its
own generator, so a rank makes its own rows only, and the batch is the same for every layout.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attune.rows.digest import RowsDigest
from attune.workload import Workload

FOLLOWS = 0.75
"""Probability that a token is followed by its partner."""
EXPONENT = 1.2
"""Exponent of Zipf's law; word frequencies of natural language are near 1."""

Tokens = npt.NDArray[np.int64]


class SyntheticRows:
    """All rows of a run, by step and row."""

    def __init__(self, *, vocabulary: int, row_tokens: int, seed: int) -> None:
        self.row_tokens = row_tokens
        self.seed = seed
        pairs = max(vocabulary // 2, 1)
        weights = np.arange(1, pairs + 1, dtype=np.float64) ** -EXPONENT
        self.cumulative = np.cumsum(weights / weights.sum())
        self.token_of_rank = np.random.default_rng([seed, 0]).permutation(2 * pairs) % vocabulary

    def row(self, step: int, row: int) -> Tokens:
        """[row_tokens + 1] tokens of row `row` of the global batch of step `step`.

        The last one is the target of the one before it, no part of the row.
        """
        draw = np.random.default_rng([self.seed, 1, step, row])
        length = self.row_tokens + 1
        pair = np.searchsorted(self.cumulative, draw.random(length)).clip(
            max=len(self.cumulative) - 1
        )
        fresh = draw.random(length) >= FOLLOWS
        fresh[0] = True
        position = np.arange(length)
        drawn = np.maximum.accumulate(np.where(fresh, position, 0))
        side = draw.integers(0, 2, length)[drawn]
        ranks = 2 * pair[drawn] + (side + position - drawn) % 2
        tokens: Tokens = self.token_of_rank[ranks]
        return tokens

    def rows(self, step: int, rows: range) -> Tokens:
        """[len(rows), row_tokens + 1] tokens."""
        return np.stack([self.row(step, row) for row in rows])


def synthetic_digest(workload: Workload, vocabulary: int) -> str:
    """Digest of the synthetic rows of one trial, all tokens but the first of a row supervised."""
    rows = SyntheticRows(vocabulary=vocabulary, row_tokens=workload.row_tokens, seed=workload.seed)
    mask = np.ones((1, workload.row_tokens), np.uint8)
    mask[:, 0] = 0
    digest = RowsDigest()
    for step in range(workload.steps):
        for row in range(workload.global_batch):
            digest.add(rows.row(step, row)[None, :-1], mask)
    return digest.hexdigest()
