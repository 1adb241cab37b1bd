"""One row as text, cut where supervision begins and ends."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from attune.errors import AttuneError
from attune.rows.manifest import Manifest, load_manifest
from attune.rows.parquet import Ids, RowsFile
from attune.rows.tokenizer import Tokenizer, load_tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """Tokens in a line that are alike in supervision."""

    text: str
    tokens: int
    supervised: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownRow:
    """A row in stretches."""

    row: int
    decoded: bool
    """Whether the stretches are text; else they are ids."""
    stretches: tuple[Stretch, ...]
    manifest: Manifest


def show_row(path: Path, row: int, tokenizer: str | None = None) -> ShownRow:
    """Row `row` of a file, decoded where `tokenizer` (a folder or hub id) is given.

    Raises:
        AttuneError: no such file, row or tokenizer, or a tokenizer that did not make these rows.
    """
    manifest = load_manifest(path)
    ids, mask = RowsFile(path).row(row)
    words = _decoder(tokenizer, manifest)
    bounds = [0, *(np.flatnonzero(np.diff(mask)) + 1).tolist(), len(ids)]
    stretches = tuple(
        Stretch(text=words(ids[a:b]), tokens=b - a, supervised=bool(mask[a]))
        for a, b in pairwise(bounds)
    )
    return ShownRow(row=row, decoded=tokenizer is not None, stretches=stretches, manifest=manifest)


class _Ids:
    """Ids as text."""

    def __call__(self, ids: Ids) -> str:
        return " ".join(map(str, ids.tolist()))


class _Words:
    """Text of ids, control tokens included."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._whole = tokenizer.whole()

    def __call__(self, ids: Ids) -> str:
        text: str = self._whole.decode(ids.tolist(), skip_special_tokens=False)
        return text


def _decoder(name: str | None, manifest: Manifest) -> _Ids | _Words:
    if name is None:
        return _Ids()
    tokenizer = load_tokenizer(name)
    if tokenizer.sha256 != manifest.tokenizer.tokenizer_sha256:
        raise AttuneError(
            f"tokenizer {name} did not make these rows; {manifest.tokenizer.name} did"
        )
    return _Words(tokenizer)
