"""Files of rows: written once, read by row.

The columns are those that miles and slime read with `--input-key messages --metadata-key
metadata`: a placeholder conversation, and a struct with ids, mask and number of the row.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from attune.errors import AttuneError

ROWS_PER_GROUP = 128
"""Rows of a row group: one global batch of the usual size is one read."""
IDS, MASK, ROW = "input_ids", "loss_mask", "row_id"

Ids = npt.NDArray[np.int32]
Mask = npt.NDArray[np.uint8]


def _schema() -> Any:
    import pyarrow as pa

    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    row = pa.struct([(IDS, pa.list_(pa.int32())), (MASK, pa.list_(pa.int8())), (ROW, pa.int64())])
    return pa.schema([("messages", pa.list_(message)), ("metadata", row)])


class RowsWriter:
    """Writes rows in groups; use as a context, which closes the file."""

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq

        self.schema = _schema()
        self.written = 0
        # Dictionary encoding is three times faster than plain here and as small.
        self._writer = pq.ParquetWriter(path, self.schema, compression="zstd", use_dictionary=True)

    def __enter__(self) -> RowsWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def write(self, ids: Ids, mask: Mask) -> None:
        """Writes [rows, row_tokens] ids and mask as one row group."""
        import pyarrow as pa

        rows, tokens = ids.shape
        bounds = np.arange(rows + 1, dtype=np.int32) * tokens
        struct = pa.StructArray.from_arrays(
            [
                pa.ListArray.from_arrays(bounds, pa.array(ids.ravel())),
                pa.ListArray.from_arrays(bounds, pa.array(mask.ravel().view(np.int8))),
                pa.array(np.arange(self.written, self.written + rows, dtype=np.int64)),
            ],
            fields=list(self.schema.field("metadata").type),
        )
        placeholder = pa.array([[{"role": "user", "content": ""}]] * rows, self.schema[0].type)
        table = pa.Table.from_arrays([placeholder, struct], schema=self.schema)
        self._writer.write_table(table, row_group_size=rows)
        self.written += rows


class RowsFile:
    """A file of rows, read a group at a time."""

    def __init__(self, path: Path) -> None:
        """Opens the file.

        Raises:
            AttuneError: not parquet, or not rows of attune.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.path = path
        try:
            self._file = pq.ParquetFile(path, memory_map=True, pre_buffer=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise AttuneError(f"{path} is not a parquet file: {error}; build it again") from error
        if self._file.schema_arrow != _schema():
            raise AttuneError(f"{path} holds no rows of attune; make some with `attune rows build`")
        footer = self._file.metadata
        sizes = [footer.row_group(g).num_rows for g in range(footer.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self._held = (-1, np.empty((0, 0), np.int32), np.empty((0, 0), np.uint8))

    def __len__(self) -> int:
        return int(self._starts[-1])

    def groups(self) -> Iterator[tuple[Ids, Mask]]:
        """Ids and mask of every row group, each [rows, row_tokens].

        Raises:
            AttuneError: rows of one group differ in length, or the file is damaged.
        """
        for group in range(len(self._starts) - 1):
            yield self._group(group)

    def row(self, number: int) -> tuple[Ids, Mask]:
        """Ids and mask of one row, each [row_tokens].

        Raises:
            AttuneError: no such row.
        """
        if not 0 <= number < len(self):
            raise AttuneError(f"{self.path} has rows 0 to {len(self) - 1}, not {number}")
        group = int(np.searchsorted(self._starts, number, side="right")) - 1
        if self._held[0] != group:
            self._held = (group, *self._group(group))
        place = number - int(self._starts[group])
        return self._held[1][place], self._held[2][place]

    def _group(self, group: int) -> tuple[Ids, Mask]:
        import pyarrow as pa

        try:
            table = self._file.read_row_group(group, ["metadata"], use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise AttuneError(f"{self.path} is damaged: {error}; build it again") from error
        struct = table["metadata"].combine_chunks()
        ids = self._matrix(struct.field(IDS), np.dtype(np.int32))
        mask = self._matrix(struct.field(MASK), np.dtype(np.int8)).view(np.uint8)
        if ids.shape != mask.shape:
            raise AttuneError(f"{self.path}: ids are {ids.shape} and masks {mask.shape}")
        return ids, mask

    def _matrix(self, lists: Any, kind: np.dtype[Any]) -> npt.NDArray[Any]:
        """Lists of one length as [rows, tokens]."""
        lengths = np.diff(lists.offsets.to_numpy())
        values = lists.flatten()
        if lists.null_count or values.null_count or len(set(lengths.tolist())) != 1:
            raise AttuneError(f"{self.path} has rows of different lengths; build it again")
        flat = values.to_numpy(zero_copy_only=False).astype(kind, copy=False)
        matrix: npt.NDArray[Any] = flat.reshape(len(lengths), -1)
        return matrix
