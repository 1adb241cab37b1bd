"""A build on its way: the stream so far, and how far it is."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from attune.errors import AttuneError
from attune.rows.cut import RowCounter, from_words, to_words
from attune.rows.encode import Encoded

_WORD_BYTES = 4
_READ_WORDS = 1 << 22


class Unfinished:
    """The folder of a build; a kill loses the chunk in flight at most."""

    def __init__(self, folder: Path, settings: dict[str, Any], *, restart: bool) -> None:
        """Opens or makes the folder.

        Raises:
            AttuneError: an unfinished build of other settings lies there.
        """
        self.folder = folder
        self.stream = folder / "stream.bin"
        self.order = folder / "order.npy"
        self.unpacked = folder / "source.jsonl"
        self._state = folder / "state.json"
        self._enter(settings, restart)
        state = self._read(self._state) or {}
        self.conversations: int = state.get("conversations", 0)
        self.tokens: int = state.get("tokens", 0)
        self.skipped: Counter[str] = Counter(state.get("skipped", {}))
        self.source: dict[str, Any] = state.get("source", {})
        """Count and digest of the source, once it is indexed."""

    def _enter(self, settings: dict[str, Any], restart: bool) -> None:
        path = self.folder / "settings.json"
        plain = json.loads(json.dumps(settings))
        found = self._read(path)
        if self.folder.exists() and found != plain:
            changed = [k for k in plain if (found or {}).get(k) != plain[k]]
            if found is not None and not restart:
                raise AttuneError(
                    f"{self.folder} holds an unfinished build with another "
                    f"{', '.join(changed) or 'setting'}; repeat its command, or give --restart"
                )
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(plain))

    @staticmethod
    def _read(path: Path) -> dict[str, Any] | None:
        try:
            data = json.loads(path.read_bytes())
        except (OSError, ValueError):
            return None
        return data if isinstance(data, dict) else None

    def counter(self, row_tokens: int) -> RowCounter:
        """Rows of the stream so far; cuts off what an interrupted write left behind it."""
        self.stream.touch()
        os.truncate(self.stream, self.tokens * _WORD_BYTES)
        counter = RowCounter(row_tokens)
        with self.stream.open("rb") as file:
            while data := file.read(_READ_WORDS * _WORD_BYTES):
                counter.add(from_words(np.frombuffer(data, "<u4"))[1])
        return counter

    def add(self, conversations: int, encoded: Encoded) -> None:
        """Appends a chunk, after which `conversations` of the order are done."""
        with self.stream.open("ab") as file:
            file.write(to_words(encoded.ids, encoded.mask).data)
            file.flush()
            os.fsync(file.fileno())
        self.conversations = conversations
        self.tokens += len(encoded.ids)
        self.skipped.update(encoded.skipped)
        self.save()

    def save(self) -> None:
        """Writes how far the build is."""
        names = ("conversations", "tokens", "skipped", "source")
        write_whole(self._state, json.dumps({name: getattr(self, name) for name in names}))

    def remove(self) -> None:
        """Deletes the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def write_whole(path: Path, text: str) -> None:
    """Writes a file so that a reader sees the old text or the new, never a part."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
