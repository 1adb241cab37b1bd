"""Digest, file and check of rows."""

from __future__ import annotations

import hashlib
import json
import struct

import numpy as np
import pyarrow.parquet as pq
import pytest

from attune.errors import AttuneError
from attune.rows.check import check_rows
from attune.rows.digest import RowsDigest, file_sha256
from attune.rows.manifest import load_manifest, manifest_path
from attune.rows.parquet import RowsFile, RowsWriter


def test_the_digest_is_as_documented():
    digest = RowsDigest()
    digest.add(np.array([[1, 2, 300], [4, 5, 6]]), np.array([[0, 1, 1], [0, 0, 1]]))
    text = struct.pack("<3i3B", 1, 2, 300, 0, 1, 1) + struct.pack("<3i3B", 4, 5, 6, 0, 0, 1)
    assert digest.hexdigest() == hashlib.sha256(text).hexdigest()


def test_the_digest_does_not_depend_on_groups_or_types():
    ids, mask = np.arange(32).reshape(4, 8), np.ones((4, 8))
    whole, parts = RowsDigest(), RowsDigest()
    whole.add(ids.astype(">i8"), mask.astype(bool))
    for row in range(4):
        parts.add(ids[row : row + 1].astype(np.int32), mask[row : row + 1])
    assert whole.hexdigest() == parts.hexdigest()


def test_rows_come_back_by_number(tmp_path):
    ids = np.arange(300 * 16, dtype=np.int32).reshape(300, 16)
    mask = (ids % 3 == 0).astype(np.uint8)
    with RowsWriter(tmp_path / "r.parquet") as writer:
        for start in range(0, 300, 128):
            writer.write(ids[start : start + 128], mask[start : start + 128])
    file = RowsFile(tmp_path / "r.parquet")
    assert len(file) == 300
    for row in (0, 127, 128, 299, 5):
        assert np.array_equal(file.row(row)[0], ids[row])
        assert np.array_equal(file.row(row)[1], mask[row])
    with pytest.raises(AttuneError, match="rows 0 to 299, not 300"):
        file.row(300)


def test_a_built_file_passes(rows_file):
    checked = check_rows(rows_file())
    assert checked.passed, checked.problems


@pytest.mark.parametrize(
    ("place", "ids", "mask", "problem"),
    [
        ((2, 0), None, 1, "row 2: the first token is supervised"),
        ((slice(1, 8), slice(None)), None, 0, "rows 1, 2, 3, 4, 5 and 2 more: no supervised token"),
        ((3, 9), 100_000, None, "row 3: an id out of the vocabulary"),
        ((3, 9), -1, None, "row 3: an id out of the vocabulary"),
        ((0, 5), None, 2, "row 0: a mask other than 0 and 1"),
    ],
)
def test_each_fault_is_named(rows_file, place, ids, mask, problem):
    path = rows_file()
    groups = [(i.copy(), m.copy()) for i, m in RowsFile(path).groups()]
    if ids is not None:
        groups[0][0][place] = ids
    if mask is not None:
        groups[0][1][place] = mask
    with RowsWriter(path) as writer:
        for changed in groups:
            writer.write(*changed)
    problems = check_rows(path).problems
    assert any(text.startswith(problem) for text in problems), problems
    assert any("rows_sha256" in text for text in problems)
    assert any("parquet_sha256" in text for text in problems)


@pytest.mark.parametrize("name", ["row_count", "supervised_tokens", "largest_id"])
def test_the_manifest_is_checked_too(rows_file, name):
    path = rows_file()
    said = json.loads(manifest_path(path).read_text())
    manifest_path(path).write_text(json.dumps(said | {name: said[name] + 1}))
    wanted = f"{name}: {said[name]}, and {said[name] + 1} in the manifest"
    assert check_rows(path).problems == (wanted,)


def test_a_cut_file_is_told(rows_file):
    path = rows_file()
    path.write_bytes(path.read_bytes()[:-100])
    assert any("not a parquet file" in text for text in check_rows(path).problems)


def test_other_parquet_is_told(rows_file):
    path = rows_file()
    pq.write_table(pq.read_table(path).select(["messages"]), path)
    assert any("holds no rows of attune" in text for text in check_rows(path).problems)


def test_a_manifest_must_be_there_and_whole(rows_file):
    path = rows_file()
    text = manifest_path(path).read_text()
    manifest_path(path).write_text(json.dumps(json.loads(text) | {"row_count": 0}))
    with pytest.raises(AttuneError, match="damaged: row_count"):
        load_manifest(path)
    manifest_path(path).unlink()
    with pytest.raises(AttuneError, match="no manifest"):
        load_manifest(path)
    with pytest.raises(AttuneError, match="no file of rows"):
        load_manifest(path.with_name("none.parquet"))


def test_the_manifest_names_its_file(rows_file):
    path = rows_file()
    manifest = load_manifest(path)
    assert manifest.parquet_sha256 == file_sha256(path)
    assert manifest.parquet_bytes == path.stat().st_size
    assert 0 < manifest.supervised_ratio < 1
