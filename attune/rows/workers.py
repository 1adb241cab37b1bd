"""Encodes chunks of a source, in this process or in several, always in order."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread

import numpy as np

from attune.errors import AttuneError
from attune.rows.encode import Encoded, Encoder
from attune.rows.lines import Lines
from attune.rows.source import Ints
from attune.rows.tokenizer import load_tokenizer

CONVERSATIONS = 256
CHUNK_BYTES = 1 << 22
"""Most of one chunk, a single conversation apart: memory is bounded, and a chunk is lost by a
kill."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What a process needs to encode any chunk."""

    tokenizer: str
    tokenizer_revision: str | None
    loss_mask: str
    column: str
    files: tuple[Path, ...]
    order: Path
    """Array file with the place of every conversation, in permuted order."""

    def encoder(self) -> Encoder:
        """A new encoder.

        Raises:
            AttuneError: as `load_tokenizer` and `Encoder`.
        """
        tokenizer = load_tokenizer(self.tokenizer, self.tokenizer_revision)
        return Encoder(tokenizer, self.loss_mask, self.column)

    def lines(self) -> Lines:
        """The source in permuted order."""
        return Lines(self.files, np.load(self.order, mmap_mode="r"))


def encode_chunks(
    work: Work, start: int, stop: int, processes: int
) -> Generator[tuple[int, Encoded], None, None]:
    """Chunks of conversations `start` to `stop`, each with the conversation behind it.

    Raises:
        AttuneError: a process died; memory is the usual reason.
    """
    lines = work.lines()
    spans = _spans(lines.places[:, 1], start, stop)
    if processes > 1:
        yield from _in_processes(work, spans, processes)
        return
    encoder = work.encoder()
    for first, last in spans:
        yield last, encoder.encode(lines.records(first, last))
    lines.close()


def _spans(lengths: Ints, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Chunks from `start` on; those from the end of a chunk on are always the same."""
    while start < stop:
        total = np.cumsum(lengths[start : min(start + CONVERSATIONS, stop)])
        last = start + max(int(np.searchsorted(total, CHUNK_BYTES, side="right")), 1)
        yield start, last
        start = last


def _in_processes(
    work: Work, spans: Iterator[tuple[int, int]], processes: int
) -> Generator[tuple[int, Encoded], None, None]:
    # Threads of the tokenizers library do not survive a fork.
    pool = ProcessPoolExecutor(processes, get_context("spawn"), _prepare, (work,))
    waiting: deque[tuple[int, Future[Encoded]]] = deque()
    try:
        # A window bounds the memory of what is done ahead of its turn.
        for first, last in spans:
            waiting.append((last, pool.submit(_encode, first, last)))
            if len(waiting) >= 2 * processes:
                last, done = waiting.popleft()
                yield last, done.result()
        for last, done in waiting:
            yield last, done.result()
    except BrokenProcessPool as error:
        raise AttuneError(
            "a process of the build died, as when memory ends; the same command goes on, "
            "and fewer --processes need less"
        ) from error
    finally:
        with suppress(Exception):
            pool.shutdown(wait=True, cancel_futures=True)


_here: dict[str, tuple[Encoder, Lines]] = {}
"""Of a worker process: its encoder and source."""


def _prepare(work: Work) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_die_with_parent, daemon=True).start()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _here["work"] = (work.encoder(), work.lines())


def _die_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


def _encode(start: int, stop: int) -> Encoded:
    encoder, lines = _here["work"]
    return encoder.encode(lines.records(start, stop))
