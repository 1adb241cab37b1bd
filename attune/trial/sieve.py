"""Finds the few lines of a log that can say anything, at the speed of memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

FAILURES = (
    *("error", "exception", "memory", "oom", "killed", "alloc", "fail", "unavailable"),
    *("new thread", "no space", "/dev/shm", "found inf", "result inf", ": inf", ":inf", "-inf"),
    *("=inf", "= inf", "timeout", "timed out", "heartbeat", "assert", "misaligned", "xid"),
    *("fallen off", "uncorrectable", "exit", "signal", "connection", "broken pipe"),
    *("sending process", "nccl warn", "aborted", "entire process", "sigabrt", "sigterm", "sigsegv"),
    *("terminate called", "not installed", "fusedadam", "please install", "destroy_process_group"),
)
"""Words, in small letters, without which no line tells of a failure; NaN is told by `NUMBERS`."""
NUMBERS = ("nan",)
TRACEBACK = ("traceback", 'file "')
PROGRESS = (
    *("iteration", "step ", "perf ", "timer ", "attune ", "training ...", "using world size"),
    *("> initialized", "> building", "building gpt", "loading checkpoint", "before the start"),
    *("creating placement", "torch.float32"),
)
"""Words of the lines that the readers of the known frameworks understand."""
KNOWN = (*FAILURES, *NUMBERS, *TRACEBACK, *PROGRESS)

_GRAM = 4
_FACTOR = np.uint32(2654435761)
"""2^32 over the golden ratio: neighbouring numbers fall far apart (Knuth, volume 3, 6.4)."""
_BITS = np.uint32(16)
_COMMON = " etaoinshrdlu"
"""Letters from the most frequent on; the gram of a word with the rarest ones is looked for."""


class Sieve:
    """Lines of a block of bytes that hold one of some words, whatever their case.

    Four bytes of each word are looked up at every place of the block at once; what they let pass
    is compared with the words.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = tuple(word.encode() for word in words)
        self._table = np.zeros(1 << 16, dtype=np.bool_)
        self._short = tuple(word for word in self._words if len(word) < _GRAM)
        grams = [_rarest(word) for word in self._words if len(word) >= _GRAM]
        self._table[_hash(np.frombuffer(b"".join(grams), dtype="<u4"))] = True

    def lines(self, block: bytes) -> Iterator[tuple[int, bytes]]:
        """Place and text of each line of `block` (which ends with a line break), in order."""
        small = block.lower()
        breaks = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == 10)
        hit = np.unique(np.searchsorted(breaks, self._places(small)))
        for index in hit[hit < len(breaks)].tolist():
            start = int(breaks[index - 1]) + 1 if index else 0
            end = int(breaks[index])
            if self.holds(small[start:end]):
                yield start, block[start:end]

    def holds(self, small: bytes) -> bool:
        """Whether a line in small letters holds one of the words."""
        return any(word in small for word in self._words)

    def _places(self, small: bytes) -> npt.NDArray[np.int64]:
        """Places in the block where a word may stand."""
        found = []
        for shift in range(_GRAM):
            count = (len(small) - shift) // _GRAM
            if count > 0:
                grams = np.frombuffer(small, dtype="<u4", count=count, offset=shift)
                found.append(np.flatnonzero(self._table[_hash(grams)]) * _GRAM + shift)
        for word in self._short:
            found.append(np.array(list(_all(small, word)), dtype=np.int64))
        places: npt.NDArray[np.int64] = np.concatenate([*found, np.empty(0, dtype=np.int64)])
        return places


def _hash(grams: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    hashed: npt.NDArray[np.uint32] = (grams * _FACTOR) >> _BITS
    return hashed


def _rarest(word: bytes) -> bytes:
    """The four bytes of a word with the rarest letters."""
    grams = [word[i : i + _GRAM] for i in range(len(word) - _GRAM + 1)]
    return max(grams, key=lambda gram: sum(_rarity(chr(letter)) for letter in gram))


def _rarity(letter: str) -> int:
    return _COMMON.index(letter) if letter in _COMMON else len(_COMMON) + 5


def _all(small: bytes, word: bytes) -> Iterator[int]:
    place = small.find(word)
    while place >= 0:
        yield place
        place = small.find(word, place + 1)
