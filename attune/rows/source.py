"""Sources of conversations: JSON lines that can be read at any place.

A source of plain `.jsonl` files is read where it lies. Any other (parquet, compressed lines) is
unpacked once into one file of JSON lines, because a permutation reads it at random.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, TypeVar

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
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
_LINE_BREAK = ord("\n")

Ints = npt.NDArray[np.int64]
Result = TypeVar("Result")
Progress: TypeAlias = Generator[tuple[int, int], None, Result]
"""Yields (bytes done, bytes of all), and gives a result."""


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


def unpack(source: Source, column: str, target: Path) -> Progress[None]:
    """Writes every record of a packed source as a JSON line.

    Raises:
        AttuneError: a damaged file, or parquet without the column.
    """
    sizes = [path.stat().st_size for path in source.files]
    with target.open("wb") as lines:
        for number, path in enumerate(source.files):
            for block, place in (
                _parquet_lines(path, column) if _is_parquet(path) else _blocks(path)
            ):
                lines.write(block)
                yield sum(sizes[:number]) + place, sum(sizes)


def _is_parquet(path: Path) -> bool:
    return path.name.endswith(".parquet")


def _parquet_lines(path: Path, column: str) -> Iterator[tuple[bytes, int]]:
    """JSON lines of a parquet file, each time with the bytes of the file that are done."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    size, done = path.stat().st_size, 0
    try:
        file = pq.ParquetFile(path)
        for batch in file.iter_batches(_BATCH_ROWS, columns=_columns(file, column, path)):
            done += len(batch)
            yield b"".join(map(_line, batch.to_pylist())), size * done // file.metadata.num_rows
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise _damaged(path, error) from error


def _columns(file: Any, column: str, path: Path) -> list[str]:
    names = file.schema_arrow.names
    if column not in names:
        raise AttuneError(
            f"{path} has no column `{column}`; give --column, one of {', '.join(names)}"
        )
    return [column] + (["tools"] if "tools" in names else [])


def _line(record: Any) -> bytes:
    return json.dumps(record, ensure_ascii=True, default=str).encode() + b"\n"


def _damaged(path: Path, error: Exception) -> AttuneError:
    return AttuneError(f"{path} is damaged: {error}; copy it again")


def _blocks(path: Path) -> Iterator[tuple[bytes, int]]:
    """Blocks of a file, uncompressed and ending in a line break, with the bytes that are done."""
    import pyarrow as pa

    last = b"\n"
    compression = _COMPRESSIONS.get(path.suffix)
    with path.open("rb") as raw, pa.input_stream(raw, compression=compression) as stream:
        try:
            while last_block := stream.read(_BLOCK_BYTES):
                last = last_block
                yield last_block, raw.tell()
        except OSError as error:
            raise _damaged(path, error) from error
        if not last.endswith(b"\n"):
            yield b"\n", raw.tell()


def index_lines(files: tuple[Path, ...], target: Path) -> Progress[tuple[int, str]]:
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
                    done += len(block)
                    yield done, total
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
    header = {"descr": "<i8", "fortran_order": False, "shape": (count, 2)}
    # Written, not mapped: on a full disk a write raises, and a map kills the process.
    with target.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        if not count:
            return
        places = np.memmap(index, np.int64, "r", shape=(count, 2))
        order = permutation(count, seed)
        for start in range(0, count, _BLOCK_LINES):
            file.write(places[order[start : start + _BLOCK_LINES]].astype("<i8").data)


def permutation(count: int, seed: int) -> Ints:
    """The order of `count` conversations under a seed; the same with every version of NumPy.

    A conversation's key is its draw from the Philox generator under the key `seed`, and keys are
    sorted. NumPy promises the raw stream of a bit generator, unlike its `permutation` (NEP 19).
    """
    keys = np.random.Philox(key=seed).random_raw(count)
    order: Ints = np.argsort(keys, kind="stable").astype(np.int64)
    return order
