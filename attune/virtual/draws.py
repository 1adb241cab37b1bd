"""Random draws that depend on what they are for, never on when they are made."""

from __future__ import annotations

import hashlib

import numpy as np

from attune.layout.table import Floats


def generator(*what: object) -> np.random.Generator:
    """A generator seeded by the words of `what`: the same on every machine, in any order."""
    text = "\x1f".join(str(word) for word in what)
    digest = hashlib.sha256(text.encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "big")))


def factors(spread: float, columns: list[Floats], *what: object) -> Floats:
    """One log-normal factor for each distinct row of `columns`, gathered to every row.

    Args:
        spread: standard deviation of the logarithm.
        columns: arrays of shape [n], rounded to whole numbers.
        what: names the draw.

    Returns:
        Factors [n].
    """
    keys = np.stack([np.rint(column).astype(np.int64) for column in columns], axis=1)
    unique, inverse = np.unique(keys, axis=0, return_inverse=True)
    drawn = [generator(*what, *key).normal() for key in unique.tolist()]
    gathered: Floats = np.exp(spread * np.array(drawn))[inverse.reshape(-1)]
    return gathered
