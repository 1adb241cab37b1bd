"""Rows in the formats of trainers that do not read attune's parquet; boundaries and masks stay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from attune.errors import AttuneError
from attune.rows.manifest import load_manifest
from attune.rows.parquet import ROWS_PER_GROUP, Mask, RowsFile

BRIDGE_SUFFIX = ".idx.parquet"


def to_bridge(rows: Path, target: Path, *, overwrite: bool = False) -> int:
    """Writes Megatron-Bridge's packed parquet: `input_ids`, `loss_mask`, `seq_start_id`.

    Each row is one sequence of its pack. Bridge reads `loss_mask` at the place of the token that
    predicts, so the mask moves one place to the front; its last place is never read, as Bridge
    trains on all tokens of a sequence but the last. Source: `GPTSFTPackedParquetDataset` and the
    collation of `GPTSFTPackedDataset`. Gives the number of rows.

    Raises:
        AttuneError: no such file of rows, a target of another name, or one that exists.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not target.name.endswith(BRIDGE_SUFFIX):
        raise AttuneError(
            f"{target} must end in {BRIDGE_SUFFIX}, by which Megatron-Bridge knows it"
        )
    if target.exists() and not overwrite:
        raise AttuneError(f"{target} exists; give another -o, or --overwrite")
    load_manifest(rows)
    fields = {"input_ids": pa.int32(), "loss_mask": pa.int8(), "seq_start_id": pa.int32()}
    schema = pa.schema([(name, pa.list_(kind)) for name, kind in fields.items()])
    part = target.with_name(target.name + ".part")
    try:
        with pq.ParquetWriter(part, schema, compression="zstd") as writer:
            for columns in _bridge_groups(RowsFile(rows)):
                writer.write_table(pa.table(columns, schema), row_group_size=ROWS_PER_GROUP)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return len(RowsFile(rows))


def _bridge_groups(file: RowsFile) -> Iterator[dict[str, list[np.ndarray]]]:
    for ids, mask in file.groups():
        starts = np.zeros((len(ids), 1), np.int32)
        columns = {"input_ids": ids, "loss_mask": _to_predictor(mask), "seq_start_id": starts}
        yield {name: list(values) for name, values in columns.items()}


def _to_predictor(mask: Mask) -> np.ndarray:
    """The mask at the place of the token that predicts; nothing follows the last."""
    moved = np.zeros_like(mask)
    moved[:, :-1] = mask[:, 1:]
    return moved.view(np.int8)
