"""Rows for Megatron-Bridge and Megatron-LM: every target keeps its place."""

from __future__ import annotations

import errno
import pickle
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from attune.errors import AttuneError
from attune.rows.convert import to_bridge
from attune.rows.parquet import RowsFile, RowsWriter
from attune.trial.frameworks.files import file_text


def targets(file: RowsFile, row: int) -> list[tuple[int, int]]:
    """(token, its target) for every supervised token of a row."""
    ids, mask = file.row(row)
    return [(int(ids[i - 1]), int(ids[i])) for i in np.flatnonzero(mask)]


def test_bridge_predicts_the_same_tokens(rows_file, tmp_path):
    path, target = rows_file(), tmp_path / "rows.idx.parquet"
    assert to_bridge(path, target) == 40
    rows = pq.read_table(target).to_pylist()
    for number, row in enumerate(rows):
        # As Bridge collates a packed sequence: inputs without the last, labels without the first.
        bounds = [*row["seq_start_id"], len(row["input_ids"])]
        assert bounds == [0, 64]
        inputs, labels = row["input_ids"][:-1], row["input_ids"][1:]
        mask = row["loss_mask"][: len(inputs)]
        found = [(i, t) for i, t, on in zip(inputs, labels, mask, strict=True) if on]
        assert found == targets(RowsFile(path), number)


def test_bridge_files_have_their_name(rows_file, tmp_path):
    path = rows_file()
    with pytest.raises(AttuneError, match=r"must end in \.idx\.parquet"):
        to_bridge(path, tmp_path / "rows2.parquet")
    to_bridge(path, tmp_path / "rows.idx.parquet")
    with pytest.raises(AttuneError, match="--overwrite"):
        to_bridge(path, tmp_path / "rows.idx.parquet")


def test_changed_rows_are_not_converted(rows_file, tmp_path):
    path, target = rows_file(), tmp_path / "rows.idx.parquet"
    ids, mask = next(RowsFile(path).groups())
    with RowsWriter(path) as writer:
        writer.write(ids[::-1].copy(), mask)
    with pytest.raises(AttuneError, match="other rows than its manifest says"):
        to_bridge(path, target)
    assert not list(tmp_path.glob("*.idx.parquet*"))


def test_a_full_disk_is_told(rows_file, tmp_path, monkeypatch):
    def full(self, *_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    path = rows_file()
    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(AttuneError, match=r"no space left for .*; free some"):
        to_bridge(path, tmp_path / "rows.idx.parquet")
    assert not list(tmp_path.glob("*.idx.parquet*"))


@pytest.fixture
def module(tmp_path, monkeypatch) -> Any:
    """The file as a trainer imports it from its PYTHONPATH."""
    name = "attune_rows_dataset"
    Path(tmp_path / f"{name}.py").write_text(file_text(f"{name}.py"))
    monkeypatch.syspath_prepend(tmp_path)
    yield __import__(name)
    sys.modules.pop(name)


def test_megatron_predicts_the_same_tokens(rows_file, module):
    torch = pytest.importorskip("torch")
    path = rows_file()
    dataset = pickle.loads(pickle.dumps(module.RowsDataset(str(path))))
    assert len(dataset) == 40
    for number in (0, 39, 7):
        row = dataset[number]
        assert {key: value.dtype for key, value in row.items()} == {
            "tokens": torch.int64,
            "labels": torch.int64,
            "loss_mask": torch.float32,
            "position_ids": torch.int64,
        }
        on = row["loss_mask"].bool()
        pairs = zip(row["tokens"][on].tolist(), row["labels"][on].tolist(), strict=True)
        assert list(pairs) == targets(RowsFile(path), number)


def test_megatron_gets_its_rows_by_flag(rows_file, module, monkeypatch):
    path = rows_file()
    training = ModuleType("megatron.training")
    training.get_args = lambda: SimpleNamespace(train_data_path=[str(path)])
    monkeypatch.setitem(sys.modules, "megatron.training", training)
    train, valid, test = module.datasets_provider((40, 0, 0))
    assert len(train) == 40 and valid is None and test is None
    with pytest.raises(ValueError, match="has 40 rows, and the run needs 41"):
        module.datasets_provider((41, 0, 0))
