"""A build on its way: the stream so far, and how far it is."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import IO, Any

import numpy as np

from attune.errors import AttuneError
from attune.rows.cut import RowCounter, from_words, to_words
from attune.rows.encode import Encoded

_WORD_BYTES = 4
_REASONS = 24
"""Reasons that are counted apart; a template may raise with another text each time."""


class Unfinished:
    """The folder of a build; a kill loses the chunk in flight at most. Use as a context."""

    def __init__(self, folder: Path, settings: dict[str, Any], *, restart: bool) -> None:
        self.folder = folder
        self.stream = folder / "stream.bin"
        self.order = folder / "order.npy"
        self.unpacked = folder / "source.jsonl"
        self.conversations = 0
        self.tokens = 0
        self.skipped: Counter[str] = Counter()
        self.source: dict[str, Any] = {}
        """Count and digest of the source, once it is indexed."""
        self._chunks = folder / "chunks.jsonl"
        """Conversations, tokens and what was left out, a line for each chunk of the stream."""
        self._indexed = folder / "source.json"
        self._settings: dict[str, Any] = json.loads(json.dumps(settings))
        self._restart = restart

    def __enter__(self) -> Unfinished:
        """Opens or makes the folder, for this process alone.

        Raises:
            AttuneError: an unfinished build of other settings lies there, or one is running.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(self.folder / "lock")
        try:
            self._take_over()
        except BaseException:
            self._lock.close()
            raise
        self.source = _read(self._indexed) or {}
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        # What was wrong from the start leaves nothing worth going on with.
        if isinstance(error, AttuneError) and not self._encoded:
            self.remove()
        self._lock.close()

    @property
    def _encoded(self) -> bool:
        return self.stream.exists() and self.stream.stat().st_size > 0

    def _take_over(self) -> None:
        path = self.folder / "settings.json"
        found = _read(path)
        if found == self._settings:
            return
        if found is not None and self._encoded and not self._restart:
            changed = [name for name, value in self._settings.items() if found.get(name) != value]
            raise AttuneError(
                f"{self.folder} holds an unfinished build with another "
                f"{', '.join(changed) or 'setting'}; repeat its command, or give --restart"
            )
        for old in (self.stream, self.order, self.unpacked, self._chunks, self._indexed):
            old.unlink(missing_ok=True)
        write_whole(path, json.dumps(self._settings))

    def resume(self, row_tokens: int, row_count: int) -> RowCounter:
        """Rows of the stream so far.

        Cuts off the chunks behind `row_count` rows, and what an interrupted write left, so that
        the result is that of a build in one go.
        """
        counter, kept = RowCounter(row_tokens), 0
        self.stream.touch()
        self._chunks.touch()
        with self.stream.open("rb") as file:
            for line in self._chunks.read_bytes().splitlines(keepends=True):
                if counter.rows >= row_count or not line.endswith(b"\n"):
                    break
                chunk = json.loads(line)
                data = file.read(chunk["tokens"] * _WORD_BYTES)
                if len(data) < chunk["tokens"] * _WORD_BYTES:
                    break
                counter.add(from_words(np.frombuffer(data, "<u4"))[1])
                self._count(**chunk)
                kept += len(line)
        os.truncate(self.stream, self.tokens * _WORD_BYTES)
        os.truncate(self._chunks, kept)
        return counter

    def add(self, conversations: int, encoded: Encoded) -> None:
        """Appends a chunk, after which `conversations` of the order are done."""
        chunk: dict[str, Any] = {
            "conversations": conversations,
            "tokens": len(encoded.ids),
            "skipped": dict(encoded.skipped),
        }
        _append(self.stream, to_words(encoded.ids, encoded.mask).data)
        _append(self._chunks, json.dumps(chunk).encode() + b"\n")
        self._count(**chunk)

    def _count(self, *, conversations: int, tokens: int, skipped: dict[str, int]) -> None:
        self.conversations = conversations
        self.tokens += tokens
        for reason, number in skipped.items():
            known = reason in self.skipped or len(self.skipped) < _REASONS
            self.skipped[reason if known else "other reasons"] += number

    def save_source(self, count: int, digest: str) -> None:
        """Writes that the source is indexed."""
        self.source = {"conversations": count, "sha256": digest}
        write_whole(self._indexed, json.dumps(self.source))

    def remove(self) -> None:
        """Deletes the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _locked(path: Path) -> IO[bytes]:
    file = path.open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise AttuneError(
            f"another process builds in {path.parent}; wait for it, or give another -o"
        ) from None
    except OSError:
        pass  # A file system without locks.
    return file


def _read(path: Path) -> dict[str, Any] | None:
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def _append(path: Path, data: bytes | memoryview) -> None:
    with path.open("ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_whole(path: Path, text: str) -> None:
    """Writes a file so that a reader sees the old text or the new, never a part."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
