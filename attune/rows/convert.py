"""Rows in the formats of trainers that do not read attune's parquet; boundaries and masks stay."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from attune.errors import AttuneError
from attune.rows.digest import RowsDigest
from attune.rows.manifest import load_manifest
from attune.rows.parquet import ROWS_PER_GROUP, Ids, Mask, RowsFile
from attune.rows.space import space_for

BRIDGE_SUFFIX = ".idx.parquet"


def to_bridge(rows: Path, target: Path, *, overwrite: bool = False) -> int:
    """Writes Megatron-Bridge's packed parquet: `input_ids`, `loss_mask`, `seq_start_id`.

    Each row is one sequence of its pack. Bridge reads `loss_mask` at the place of the token that
    predicts, so the mask moves one place to the front; its last place is never read, as Bridge
    trains on all tokens of a sequence but the last. Source: `GPTSFTPackedParquetDataset` and the
    collation of `GPTSFTPackedDataset`. Gives the number of rows.

    Raises:
        AttuneError: no such file of rows or a damaged one, a target of another name or one that
            exists, or no space left.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    _check_target(target, overwrite)
    manifest = load_manifest(rows)
    fields = {"input_ids": pa.int32(), "loss_mask": pa.int8(), "seq_start_id": pa.int32()}
    schema = pa.schema([(name, pa.list_(kind)) for name, kind in fields.items()])
    part = target.with_name(target.name + ".part")
    digest = RowsDigest()
    try:
        with space_for(target), pq.ParquetWriter(part, schema, compression="zstd") as writer:
            for ids, mask in RowsFile(rows).groups():
                digest.add(ids, mask)
                table = pa.table(_bridge_columns(ids, mask), schema)
                writer.write_table(table, row_group_size=ROWS_PER_GROUP)
        if digest.hexdigest() != manifest.rows_sha256:
            raise AttuneError(f"{rows} holds other rows than its manifest says; build it again")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return manifest.row_count


def _check_target(target: Path, overwrite: bool) -> None:
    if not target.name.endswith(BRIDGE_SUFFIX):
        raise AttuneError(
            f"{target} must end in {BRIDGE_SUFFIX}, by which Megatron-Bridge knows it"
        )
    if target.exists() and not overwrite:
        raise AttuneError(f"{target} exists; give another -o, or --overwrite")


def _bridge_columns(ids: Ids, mask: Mask) -> dict[str, list[np.ndarray]]:
    starts = np.zeros((len(ids), 1), np.int32)
    columns = {"input_ids": ids, "loss_mask": _to_predictor(mask), "seq_start_id": starts}
    return {name: list(values) for name, values in columns.items()}


def _to_predictor(mask: Mask) -> np.ndarray:
    """The mask at the place of the token that predicts; nothing follows the last."""
    moved = np.zeros_like(mask)
    moved[:, :-1] = mask[:, 1:]
    return moved.view(np.int8)
