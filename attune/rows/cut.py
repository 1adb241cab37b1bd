"""Cuts a stream of tokens into rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from attune.rows.parquet import ROWS_PER_GROUP, Ids, Mask

_SUPERVISED = np.uint32(1 << 31)
"""In a stream on disk the top bit of a token's word is its mask; ids are 31 bits."""
_WORD_BYTES = 4

Words = npt.NDArray[np.uint32]


def to_words(ids: Ids, mask: Mask) -> Words:
    """Tokens and mask as a stream of 32-bit words."""
    words: Words = ids.view(np.uint32) | (mask.astype(np.uint32) << np.uint32(31))
    return words.astype("<u4", copy=False)


def from_words(words: Words) -> tuple[Ids, Mask]:
    """Tokens and mask of a stream's words, in the words' shape."""
    mask: Mask = (words >> np.uint32(31)).astype(np.uint8)
    ids: Ids = (words & ~_SUPERVISED).view(np.int32)
    return ids, mask


class RowCounter:
    """How many rows with a target a growing stream holds."""

    def __init__(self, row_tokens: int) -> None:
        self.row_tokens = row_tokens
        self.rows = 0
        self._tail = np.empty(0, np.uint8)

    def add(self, mask: Mask) -> None:
        """Goes on with the mask of the next tokens."""
        mask = np.concatenate([self._tail, mask])
        whole = len(mask) // self.row_tokens * self.row_tokens
        rows = mask[:whole].reshape(-1, self.row_tokens)
        self.rows += int(rows[:, 1:].any(axis=1).sum())
        self._tail = mask[whole:]


def cut_rows(stream: Path, tokens: int, row_tokens: int, count: int) -> Iterator[tuple[Ids, Mask]]:
    """Groups of rows from the first `tokens` of a stream on disk, `count` rows at most.

    Rows are consecutive and without padding; what is left at the end is dropped. The first token
    of a row is never supervised, for nothing before it predicts it, and a row without a
    supervised token is skipped.
    """
    left, rows = count, tokens // row_tokens
    held_ids, held_mask = np.empty((0, row_tokens), np.int32), np.empty((0, row_tokens), np.uint8)
    with stream.open("rb") as file:
        for start in range(0, rows, ROWS_PER_GROUP):
            size = min(ROWS_PER_GROUP, rows - start)
            data = np.frombuffer(file.read(size * row_tokens * _WORD_BYTES), "<u4")
            ids, mask = from_words(data.reshape(size, row_tokens))
            mask[:, 0] = 0
            kept = mask.any(axis=1)
            held_ids = np.concatenate([held_ids, ids[kept]])
            held_mask = np.concatenate([held_mask, mask[kept]])
            while len(held_ids) >= min(ROWS_PER_GROUP, left) > 0:
                size = min(ROWS_PER_GROUP, left)
                yield held_ids[:size], held_mask[:size]
                held_ids, held_mask, left = held_ids[size:], held_mask[size:], left - size
            if not left:
                return
    if len(held_ids):
        yield held_ids[:left], held_mask[:left]
