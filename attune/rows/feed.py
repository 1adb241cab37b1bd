"""What a trainer reads: batches of rows by step, whatever the rows come from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from attune.errors import AttuneError
from attune.rows.digest import file_sha256
from attune.rows.manifest import Manifest, load_manifest
from attune.rows.synthetic import SyntheticRows, synthetic_digest
from attune.workload import Workload

SYNTHETIC = "synthetic"
_COUNTED = 2**28

Tokens = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float32]
Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows ready for a model; all fields are [rows, row_tokens]."""

    tokens: Tokens
    labels: Tokens
    """The token after each; 0 where there is none."""
    weights: Weights
    """Share of each label in the loss of its row: equal over a row's targets, sum 1."""


class Feed(Protocol):
    """Rows by place in the global batch of a step."""

    def batch(self, step: int, rows: range) -> Batch:
        """Rows `rows` of the global batch of step `step`."""


class SyntheticFeed:
    """Synthetic rows, every token a target."""

    def __init__(self, rows: SyntheticRows) -> None:
        self.rows = rows

    def batch(self, step: int, rows: range) -> Batch:
        """Rows `rows` of the global batch of step `step`."""
        tokens = self.rows.rows(step, rows)
        weights = np.full((len(rows), self.rows.row_tokens), 1 / self.rows.row_tokens, np.float32)
        return Batch(tokens[:, :-1], tokens[:, 1:], weights)


class FileFeed:
    """Rows of a file, in its order: step k trains on the k-th global batch of them."""

    def __init__(self, path: Path, global_batch: int) -> None:
        from attune.rows.parquet import RowsFile

        self.file = RowsFile(path)
        self.global_batch = global_batch
        self.file.row(0)

    def batch(self, step: int, rows: range) -> Batch:
        """Rows `rows` of the global batch of step `step`."""
        read = [self.file.row(step * self.global_batch + row) for row in rows]
        tokens = np.stack([ids for ids, _ in read]).astype(np.int64)
        mask = np.stack([mask for _, mask in read]).astype(np.float32)
        weights: Weights = _shifted(mask / mask.sum(axis=1, keepdims=True))
        return Batch(tokens, _shifted(tokens), weights)


def _shifted(values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """Each place takes the value after it; nothing follows the last."""
    shifted = np.zeros_like(values)
    shifted[:, :-1] = values[:, 1:]
    return shifted


def open_feed(workload: Workload, vocabulary: int) -> Feed:
    """The rows of a workload.

    Raises:
        AttuneError: as `check_rows_fit`.
    """
    if workload.rows == SYNTHETIC:
        rows = SyntheticRows(
            vocabulary=vocabulary, row_tokens=workload.row_tokens, seed=workload.seed
        )
        return SyntheticFeed(rows)
    check_rows_fit(workload, vocabulary)
    return FileFeed(Path(workload.rows), workload.global_batch)


def check_rows_fit(workload: Workload, vocabulary: int) -> Manifest | None:
    """The manifest of a workload's file of rows; None for synthetic rows.

    Raises:
        AttuneError: no such file, other rows than the workload names, rows of another length, too
            few of them, or ids that the model does not have.
    """
    if workload.rows == SYNTHETIC:
        return None
    manifest = load_manifest(Path(workload.rows))
    for problem in _misfits(manifest, workload, vocabulary):
        raise AttuneError(f"{workload.rows}: {problem}")
    return manifest


def name_rows(workload: Workload, vocabulary: int, *, real: bool) -> Workload:
    """The workload with the digest of its rows, before anything is spent on them.

    Synthetic rows get theirs where the run is `real` and makes fewer than 2^28 tokens (half a
    minute); a virtual cluster trains on no rows.

    Raises:
        AttuneError: as `check_rows_fit`, or the rows are not those that the workload or the
            manifest names.
    """
    if workload.rows == SYNTHETIC:
        tokens = workload.steps * workload.tokens_per_step
        digest = synthetic_digest(workload, vocabulary) if real and tokens < _COUNTED else None
    else:
        manifest = load_manifest(Path(workload.rows))
        if file_sha256(Path(workload.rows)) != manifest.parquet_sha256:
            raise AttuneError(
                f"{workload.rows} is not the file that its manifest describes; "
                "`attune rows check` says more, and building the rows again mends it"
            )
        check_rows_fit(workload, vocabulary)
        digest = manifest.rows_sha256
    if digest and workload.rows_sha256 not in (None, digest):
        raise AttuneError(
            f"the {workload.rows} rows changed: their digest is {digest}, and the workload names "
            f"{workload.rows_sha256}; start anew"
        )
    return workload.model_copy(update={"rows_sha256": digest or workload.rows_sha256})


def _misfits(manifest: Manifest, workload: Workload, vocabulary: int) -> list[str]:
    needed = workload.steps * workload.global_batch
    problems = []
    if workload.rows_sha256 not in (None, manifest.rows_sha256):
        problems.append(
            f"these rows changed: their digest is {manifest.rows_sha256}, and the workload names "
            f"{workload.rows_sha256}; put the first rows back, or start anew"
        )
    if manifest.row_tokens != workload.row_tokens:
        problems.append(
            f"rows have {manifest.row_tokens} tokens, and the workload asks for "
            f"{workload.row_tokens}; give --row-tokens {manifest.row_tokens}"
        )
    if manifest.row_count < needed:
        problems.append(
            f"{manifest.row_count} rows, and {workload.steps} steps of {workload.global_batch} "
            f"need {needed}; build more, or give fewer --steps"
        )
    if manifest.largest_id >= vocabulary:
        problems.append(
            f"ids go up to {manifest.largest_id}, and the model knows {vocabulary}; build rows "
            "with the model's tokenizer"
        )
    return problems
