"""The digest of rows: one number for what a trial trains on, whatever file holds it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_BLOCK_BYTES = 1 << 20


class RowsDigest:
    """SHA-256 over rows in order; of each row its ids, then its mask.

    Ids are little-endian 32-bit integers, the mask is one byte (0 or 1) per token. Nothing else
    enters: no lengths, no separators, no file format. The definition never changes.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, ids: npt.NDArray[Any], mask: npt.NDArray[Any]) -> None:
        """Adds rows; ids and mask are [rows, row_tokens]."""
        little = np.ascontiguousarray(ids, dtype="<i4")
        bytes_of_mask = np.ascontiguousarray(mask, dtype=np.uint8)
        for row, supervised in zip(little, bytes_of_mask, strict=True):
            self._hash.update(row.data)
            self._hash.update(supervised.data)

    def hexdigest(self) -> str:
        """The digest of all rows so far, as 64 hexadecimal digits."""
        return self._hash.hexdigest()


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes.

    Raises:
        OSError: the file cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
