"""Checks a file of rows against its manifest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from attune.errors import AttuneError
from attune.rows.digest import RowsDigest, file_sha256
from attune.rows.manifest import Manifest, load_manifest
from attune.rows.parquet import Ids, Mask, RowsFile

_NAMED = 5
"""Rows that a problem names at most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowsCheck:
    """What a check of a file of rows found."""

    path: Path
    manifest: Manifest
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def check_rows(path: Path) -> RowsCheck:
    """Digests, shapes, masks and range of ids; every problem is named.

    Raises:
        AttuneError: no such file or manifest, or either cannot be read at all.
    """
    manifest = load_manifest(path)
    problems = []
    if file_sha256(path) != manifest.parquet_sha256:
        problems.append("parquet_sha256: the file is not the one that its manifest describes")
    try:
        problems += _check_content(RowsFile(path), manifest)
    except AttuneError as error:
        problems.append(str(error))
    return RowsCheck(path=path, manifest=manifest, problems=tuple(problems))


def _check_content(file: RowsFile, manifest: Manifest) -> list[str]:
    problems, digest, supervised, largest, first = [], RowsDigest(), 0, 0, 0
    for ids, mask in file.groups():
        digest.add(ids, mask)
        supervised += int((mask != 0).sum())
        largest = max(largest, int(ids.max()))
        problems += _check_rows(ids, mask, first, manifest)
        first += len(ids)
    if digest.hexdigest() != manifest.rows_sha256:
        problems.append("rows_sha256: these are other rows than the manifest's")
    counted = {
        "row_count": (len(file), manifest.row_count),
        "supervised_tokens": (supervised, manifest.supervised_tokens),
        "largest_id": (largest, manifest.largest_id),
    }
    return problems + [
        f"{name}: {found}, and {said} in the manifest"
        for name, (found, said) in counted.items()
        if found != said
    ]


def _check_rows(ids: Ids, mask: Mask, first: int, manifest: Manifest) -> list[str]:
    """Problems of rows `first` and on."""
    if ids.shape[1] != manifest.row_tokens:
        return [f"row {first}: {ids.shape[1]} tokens, and {manifest.row_tokens} in the manifest"]
    vocabulary = manifest.tokenizer.vocabulary
    faults = {
        "no supervised token": ~mask.any(axis=1),
        "the first token is supervised": mask[:, 0] != 0,
        "a mask other than 0 and 1": (mask > 1).any(axis=1),
        f"an id out of the vocabulary of {vocabulary}": ((ids < 0) | (ids >= vocabulary)).any(
            axis=1
        ),
    }
    return [
        f"{_some([first + int(row) for row in wrong.nonzero()[0]])}: {fault}"
        for fault, wrong in faults.items()
        if wrong.any()
    ]


def _some(rows: list[int]) -> str:
    more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    word = "row" if len(rows) == 1 else "rows"
    return f"{word} {', '.join(map(str, rows[:_NAMED]))}{more}"
