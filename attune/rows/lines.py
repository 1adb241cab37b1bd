"""Records of a source, read by their place in the permuted order."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

from attune.rows.conversation import TOO_DEEP, UnusableError
from attune.rows.source import Ints

LARGEST_BYTES = 1 << 24
"""A longer record is no conversation, and bounds the memory of a build."""


class Lines:
    """Reads lines of several files at random."""

    def __init__(self, files: tuple[Path, ...], places: Ints) -> None:
        self.files = files
        self.places = places
        sizes = [path.stat().st_size for path in files]
        self._starts = [0, *accumulate(sizes)][: len(files)]
        self._open: dict[int, BinaryIO] = {}

    def records(self, start: int, stop: int) -> Iterator[Any]:
        """Records `start` to `stop`; one that is no JSON is an `UnusableError` in its place."""
        for first, length in self.places[start:stop].tolist():
            file = bisect_right(self._starts, first) - 1
            try:
                yield self._record(file, first - self._starts[file], length)
            except UnusableError as error:
                yield error

    def _record(self, file: int, first: int, length: int) -> Any:
        if length > LARGEST_BYTES:
            raise UnusableError("longer than 16 MiB")
        if file not in self._open:
            self._open[file] = self.files[file].open("rb")
        handle = self._open[file]
        handle.seek(first)
        try:
            return json.loads(handle.read(length).decode("utf-8-sig"))
        except UnicodeDecodeError:
            raise UnusableError("not UTF-8") from None
        except RecursionError:
            raise UnusableError(TOO_DEEP) from None
        except ValueError:
            raise UnusableError("not JSON") from None

    def close(self) -> None:
        """Closes the files."""
        for handle in self._open.values():
            handle.close()
        self._open.clear()
