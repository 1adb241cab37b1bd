"""Sources of conversations: JSON lines that can be read at any place.

A source of plain `.jsonl` files is read where it lies. Any other (parquet, compressed lines) is
unpacked once into one file of JSON lines, because a permutation reads it at random.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import yaml

from attune.errors import AttuneError
from attune.rows.hub import fetch

_LINES = (".jsonl", ".json", ".ndjson")
_PACKED = (".parquet", ".jsonl.gz", ".json.gz", ".jsonl.zst", ".json.zst")
_PATTERNS = ("*.jsonl", "*.json", "*.parquet", "*.jsonl.gz", "*.jsonl.zst", "README.md")
_BLOCK_BYTES = 1 << 24
_BLOCK_LINES = 1 << 20
_BATCH_ROWS = 256
_LINE_BREAK = ord("\n")

Ints = npt.NDArray[np.int64]
Watch = Callable[[int, int], None]
"""Told (bytes done, bytes of all)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Files of conversations, in order."""

    name: str
    revision: str | None
    license: str | None
    files: tuple[Path, ...]

    @property
    def plain(self) -> bool:
        """Whether every file is JSON lines as it lies."""
        return all(path.name.endswith(_LINES) for path in self.files)

    def fingerprint(self) -> list[tuple[str, int, int]]:
        """Name, bytes and time of change of every file: whether a source is still the same."""
        stats = [(path, path.stat()) for path in self.files]
        return [(str(p.resolve()), s.st_size, s.st_mtime_ns) for p, s in stats]


def find_source(name: str, revision: str | None = None) -> Source:
    """The files of a path or hub id; of a folder with splits, those of its `train` split.

    Raises:
        AttuneError: nothing there, no file of conversations in it, or the hub cannot be reached.
    """
    place = Path(name)
    if not place.exists():
        place, revision = fetch(name, "dataset", revision, _PATTERNS)
        label = name
    else:
        label = place.resolve().name
    files = _files(place)
    if not files:
        kinds = ", ".join((*_LINES, *_PACKED))
        raise AttuneError(f"{place} holds no conversations; rows are built from {kinds}")
    return Source(name=label, revision=revision, license=_license(place), files=files)


def _files(place: Path) -> tuple[Path, ...]:
    if place.is_file():
        return (place,) if place.name.endswith((*_LINES, *_PACKED)) else ()
    found = sorted(p for p in place.rglob("*") if p.name.endswith((*_LINES, *_PACKED)))
    train = [p for p in found if "train" in p.relative_to(place).as_posix()]
    return tuple(train or found)


def _license(place: Path) -> str | None:
    """`license:` in the front matter of the data set's card."""
    card = place / "README.md"
    if not card.is_file():
        return None
    parts = card.read_text(encoding="utf-8", errors="replace").split("---", 2)
    if len(parts) < 3 or parts[0].strip():
        return None
    try:
        data = yaml.safe_load(parts[1])
    except yaml.YAMLError:
        return None
    found = data.get("license") if isinstance(data, dict) else None
    return ", ".join(map(str, found)) if isinstance(found, list) else found and str(found)


def unpack(source: Source, column: str, target: Path, watch: Watch) -> None:
    """Writes every record of a packed source as a JSON line.

    Raises:
        AttuneError: a damaged file, or parquet without the column.
    """
    sizes = [path.stat().st_size for path in source.files]
    with target.open("wb") as lines:
        for number, path in enumerate(source.files):
            watch(sum(sizes[:number]), sum(sizes))
            for block in _parquet_lines(path, column) if _is_parquet(path) else _blocks(path):
                lines.write(block)
    watch(sum(sizes), sum(sizes))


def _is_parquet(path: Path) -> bool:
    return path.name.endswith(".parquet")


def _parquet_lines(path: Path, column: str) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
        if column not in names:
            raise AttuneError(f"{path} has no column `{column}`; it has {', '.join(names)}")
        columns = [column] + (["tools"] if "tools" in names else [])
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=columns):
            for record in batch.to_pylist():
                yield json.dumps(record, ensure_ascii=True, default=str).encode() + b"\n"
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise AttuneError(f"{path} is damaged: {error}; copy it again") from error


def _blocks(path: Path) -> Iterator[bytes]:
    """Bytes of a file, uncompressed, ending in a line break."""
    import pyarrow as pa

    last = b"\n"
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            while last_block := stream.read(_BLOCK_BYTES):
                last = last_block
                yield last_block
    except OSError as error:
        raise AttuneError(f"{path} is damaged: {error}; copy it again") from error
    if not last.endswith(b"\n"):
        yield b"\n"


def index_lines(files: tuple[Path, ...], target: Path, watch: Watch) -> tuple[int, str]:
    """Writes where every line is: 64-bit first byte, counted over all files, and bytes.

    Gives the number of lines, blank ones apart, and the digest of the files' bytes.
    """
    digest, lines, done = hashlib.sha256(), 0, 0
    total = sum(path.stat().st_size for path in files)
    with target.open("wb") as index:
        for path in files:
            start = done
            with path.open("rb") as file:
                while block := file.read(_BLOCK_BYTES):
                    digest.update(block)
                    breaks = np.flatnonzero(np.frombuffer(block, np.uint8) == _LINE_BREAK) + done
                    lines += _add_lines(index, start, breaks)
                    start = int(breaks[-1]) + 1 if len(breaks) else start
                    watch(done := done + len(block), total)
            lines += _add_lines(index, start, np.array([done]))
    return lines, digest.hexdigest()


def _add_lines(index: BinaryIO, start: int, ends: npt.NDArray[np.intp]) -> int:
    """Writes the lines that end before the bytes `ends`, without blank ones; gives their number."""
    starts = np.concatenate([[start], ends[:-1] + 1]) if len(ends) else ends
    table = np.stack([starts, ends - starts], axis=1).astype(np.int64)
    kept = np.ascontiguousarray(table[table[:, 1] > 1])
    index.write(kept.data)
    return len(kept)


def permute_lines(index: Path, count: int, seed: int, target: Path) -> None:
    """Writes the index in permuted order, as an array file [lines, 2]; memory holds the order."""
    permuted = np.lib.format.open_memmap(target, "w+", np.dtype(np.int64), (count, 2))
    if not count:
        return
    places = np.memmap(index, np.int64, "r", shape=(count, 2))
    order = permutation(count, seed)
    for start in range(0, count, _BLOCK_LINES):
        chosen = order[start : start + _BLOCK_LINES]
        permuted[start : start + len(chosen)] = places[chosen]
    permuted.flush()


def permutation(count: int, seed: int) -> Ints:
    """The order of `count` conversations under a seed; the same with every version of NumPy.

    A conversation's key is its draw from the Philox generator under the key `seed`, and keys are
    sorted. NumPy promises the raw stream of a bit generator, unlike its `permutation` (NEP 19).
    """
    keys = np.random.Philox(key=seed).random_raw(count)
    order: Ints = np.argsort(keys, kind="stable").astype(np.int64)
    return order
