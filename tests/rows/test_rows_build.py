"""The same rows whatever the processes, interruptions and container of the source."""

from __future__ import annotations

import errno
import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attune.errors import AttuneError
from attune.rows.build import BuildProgress, build_rows
from attune.rows.check import check_rows
from attune.rows.encode import Encoder
from attune.rows.parquet import RowsFile, RowsWriter
from attune.rows.source import permutation, permute_lines
from attune.rows.tokenizer import load_tokenizer
from tests.rows.builds import built
from tests.rows.small_tokenizers import CONVERSATIONS

RECORDS = [json.loads(line) for line in CONVERSATIONS.read_text().splitlines()]


def test_rows_are_the_permuted_stream_cut(ask):
    request = ask()
    built(request)
    order = permutation(len(RECORDS), request.seed)
    encoder = Encoder(load_tokenizer(request.tokenizer), request.loss_mask)
    stream = encoder.encode(RECORDS[i] for i in order)
    ids = stream.ids[: len(stream.ids) // 64 * 64].reshape(-1, 64)
    mask = stream.mask[: ids.size].reshape(-1, 64).copy()
    mask[:, 0] = 0
    kept = mask.any(axis=1)
    file = RowsFile(request.output)
    rows = [file.row(i) for i in range(40)]
    assert np.array_equal(np.stack([i for i, _ in rows]), ids[kept][:40])
    assert np.array_equal(np.stack([m for _, m in rows]), mask[kept][:40])


def test_two_processes_write_the_same_bytes(ask, tmp_path, monkeypatch):
    one = ask()
    two = replace(one, output=tmp_path / "two.parquet", processes=2)
    assert built(one).model_dump() == built(two).model_dump()
    assert one.output.read_bytes() == two.output.read_bytes()


def test_seed_tokenizer_and_length_change_the_rows(ask, tmp_path):
    changes = [{}, {"seed": 1}, {"family": "qwen3"}, {"row_tokens": 32}]
    digests = {
        built(ask(output=tmp_path / f"{i}.parquet", **change)).rows_sha256
        for i, change in enumerate(changes)
    }
    assert len(digests) == len(changes)


@pytest.mark.parametrize("kind", ["parquet", "hub folder", "gzip"])
def test_the_container_does_not_matter(ask, tmp_path, kind):
    plain = built(ask(output=tmp_path / "plain.parquet"))
    table = pa.Table.from_pylist(
        [{"id": str(i), "tools": None, **r} for i, r in enumerate(RECORDS)]
    )
    source = tmp_path / "set.parquet"
    if kind == "parquet":
        pq.write_table(table, source)
    elif kind == "gzip":
        source = tmp_path / "set.jsonl.gz"
        source.write_bytes(gzip.compress(CONVERSATIONS.read_bytes()))
    else:
        source = tmp_path / "set"
        (source / "data").mkdir(parents=True)
        (source / "README.md").write_text("---\nlicense: odc-by\n---\n# A set\n")
        half = len(table) // 2
        pq.write_table(table[:half], source / "data" / "train-00000-of-00002.parquet")
        pq.write_table(table[half:], source / "data" / "train-00001-of-00002.parquet")
        pq.write_table(table[:1], source / "data" / "test-00000-of-00001.parquet")
    packed = built(ask(source=str(source), output=tmp_path / "packed.parquet"))
    assert packed.rows_sha256 == plain.rows_sha256
    assert packed.source.license == ("odc-by" if kind == "hub folder" else None)


def test_a_hub_id_is_fetched_at_its_commit(ask, tmp_path, monkeypatch):
    snapshot = tmp_path / "snapshots" / "b14afda"
    snapshot.mkdir(parents=True)
    (snapshot / "train.jsonl").write_bytes(CONVERSATIONS.read_bytes())
    asked = []

    def download(name, **options):
        asked.append((name, options["repo_type"], options["revision"]))
        return str(snapshot)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    manifest = built(ask(source="someone/conversations", revision="main"))
    assert asked == [("someone/conversations", "dataset", "main")]
    assert (manifest.source.name, manifest.source.revision) == ("someone/conversations", "b14afda")


def test_an_interrupted_build_goes_on(ask, tmp_path, monkeypatch):
    monkeypatch.setattr("attune.rows.workers.CONVERSATIONS", 16)
    whole = built(ask(output=tmp_path / "whole.parquet"))
    request = ask()
    events = build_rows(request)
    for event in events:
        if isinstance(event, BuildProgress) and event.phase == "encoding" and event.done > 8:
            break
    events.close()
    stream = request.folder / "stream.bin"
    with stream.open("ab") as file:
        file.write(b"half a chunk")
    assert not request.output.exists()
    seen: list[int] = []
    encode = Encoder.encode
    monkeypatch.setattr(Encoder, "encode", lambda s, r: seen.append(1) or encode(s, r))
    assert built(request).model_dump() == whole.model_dump()
    assert 0 < len(seen) < len(RECORDS) // 16
    assert not request.folder.exists()


def interrupted(request) -> None:
    """Ends a build when some of its stream is written."""
    events = build_rows(request)
    for event in events:
        if isinstance(event, BuildProgress) and event.phase == "encoding" and event.done:
            break
    events.close()


def test_an_unfinished_build_of_other_settings_is_not_mixed_in(ask):
    interrupted(ask())
    other = ask(seed=7)
    with pytest.raises(AttuneError, match=r"another seed; .* or give --restart"):
        built(other)
    assert built(replace(other, restart=True)).seed == 7


def test_an_unfinished_build_goes_on_with_other_lengths(ask, tmp_path, monkeypatch):
    monkeypatch.setattr("attune.rows.workers.CONVERSATIONS", 16)
    interrupted(ask(row_count=100))
    other = ask(row_count=9, row_tokens=48)
    fresh = replace(other, output=tmp_path / "fresh.parquet")
    assert built(other).model_dump() == built(fresh).model_dump()


def test_a_stream_that_lost_its_end_is_made_again(ask, tmp_path, monkeypatch):
    monkeypatch.setattr("attune.rows.workers.CONVERSATIONS", 16)
    request = ask(row_count=100)
    interrupted(request)
    stream = request.folder / "stream.bin"
    stream.write_bytes(stream.read_bytes()[:-6])
    fresh = replace(request, output=tmp_path / "fresh.parquet")
    assert built(request).model_dump() == built(fresh).model_dump()


def test_what_was_wrong_from_the_start_leaves_nothing(ask, tokenizer_of, tmp_path):
    bad = [{"loss_mask": "qwen3"}, {"source": str(tmp_path / "set.parquet")}]
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "set.parquet")
    for fields in bad:
        with pytest.raises(AttuneError):
            built(ask(**fields))
    assert [path.name for path in tmp_path.iterdir()] == ["set.parquet"]
    built(ask())


def test_two_builds_of_one_file_do_not_mix(ask):
    events = build_rows(ask())
    next(events)
    with pytest.raises(AttuneError, match="another process builds in"):
        built(ask())
    *_, manifest = events
    assert check_rows(ask().output).passed and manifest.row_count == 40


@pytest.mark.parametrize("kind", ["plain", "gzip", "parquet"])
def test_reading_tells_how_far_it_is(ask, tmp_path, monkeypatch, kind):
    monkeypatch.setattr("attune.rows.source._BLOCK_BYTES", 4096)
    monkeypatch.setattr("attune.rows.source._BATCH_ROWS", 16)
    source = {"plain": CONVERSATIONS, "gzip": tmp_path / "s.jsonl.gz"}.get(
        kind, tmp_path / "s.parquet"
    )
    (tmp_path / "s.jsonl.gz").write_bytes(gzip.compress(CONVERSATIONS.read_bytes()))
    pq.write_table(pa.Table.from_pylist(RECORDS), tmp_path / "s.parquet")
    told = [e for e in build_rows(ask(source=str(source))) if isinstance(e, BuildProgress)]
    phase = "reading" if kind == "plain" else "unpacking"
    done = [event.done / event.total for event in told if event.phase == phase]
    assert len(done) > 3 and done == sorted(done) and done[-1] == 1


def test_a_full_disk_leaves_no_half_file(ask, monkeypatch):
    request, write = ask(), RowsWriter.write

    def full(self, ids, mask):
        write(self, ids, mask)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(RowsWriter, "write", full)
    with pytest.raises(AttuneError, match="no space left"):
        built(request)
    left = {path.name for path in request.output.parent.iterdir()}
    assert left == {"rows.parquet.building"}
    monkeypatch.undo()
    built(request)
    assert check_rows(request.output).passed


def test_the_index_is_written_not_mapped(tmp_path):
    (tmp_path / "index").write_bytes(np.arange(6, dtype=np.int64).tobytes())
    with pytest.raises(OSError, match="No space left") as raised:
        permute_lines(tmp_path / "index", 3, 1, Path("/dev/full"))
    assert raised.value.errno == errno.ENOSPC


def test_an_output_is_not_overwritten_unasked(ask):
    request = ask()
    built(request)
    request.folder.mkdir()
    with pytest.raises(AttuneError, match="--overwrite"):
        built(request)
    built(replace(request, overwrite=True))


def test_the_permutation_never_changes():
    assert permutation(8, 42).tolist() == permutation(8, 42).tolist()
    assert sorted(permutation(1000, 3).tolist()) == list(range(1000))
    assert permutation(8, 42).tolist() == PERMUTED


PERMUTED = [7, 1, 6, 4, 3, 5, 0, 2]
