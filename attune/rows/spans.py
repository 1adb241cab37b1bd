"""Which characters of a rendered conversation are supervised."""

from __future__ import annotations

import re
from dataclasses import dataclass

from attune.rows.conversation import GENERATION, UnusableError, alternatives
from attune.rows.family import Family


@dataclass(frozen=True, slots=True)
class Marked:
    """A rendered text and its supervised spans."""

    text: str
    spans: tuple[tuple[int, int], ...]
    """Character offsets [start, end) in order, without overlap."""
    open: bool
    """Whether a supervised turn runs to the end, so that the separator may be its stop."""


class Marker:
    """Finds the spans of one family; None finds those that the template marked."""

    def __init__(self, family: Family | None) -> None:
        self.family = family
        if family is not None:
            self._start = re.compile(family.start)
            self._skip = re.compile(family.skip)
            self._end = alternatives([*family.stops, *family.ends])
            self._stops = frozenset(family.stops)

    def mark(self, rendered: str, learnt: tuple[bool, ...]) -> Marked:
        """The text without generation marks, and its spans; one turn per entry of `learnt`.

        Raises:
            UnusableError: the template wrote another number of assistant turns.
        """
        text, generated = _without_marks(rendered)
        turns = generated if self.family is None else self._turns(text)
        if len(turns) != len(learnt):
            raise UnusableError("template merges or drops assistant messages")
        spans = [turn for turn, learn in zip(turns, learnt, strict=True) if learn]
        kept = tuple((start, end) for start, end in spans if end > start)
        last_open = bool(turns) and learnt[-1] and turns[-1][1] == len(text)
        return Marked(text, kept, last_open and self.family is not None and not self._ended(text))

    def _ended(self, text: str) -> bool:
        return text.endswith(tuple(self._stops))

    def _turns(self, text: str) -> list[tuple[int, int]]:
        """Every assistant turn from behind its prompt to behind its stop."""
        turns = []
        for found in self._start.finditer(text):
            skipped = self._skip.match(text, found.end())
            start = skipped.end() if skipped else found.end()
            ended = self._end.search(text, start)
            if ended is None:
                turns.append((start, len(text)))
            else:
                stop = ended[0] in self._stops
                turns.append((start, ended.end() if stop else ended.start()))
        return turns


def _without_marks(rendered: str) -> tuple[str, list[tuple[int, int]]]:
    """The text without generation marks, and the spans that they enclosed."""
    begin, end = GENERATION
    if begin not in rendered:
        return rendered, []
    pieces, spans, length = [], [], 0
    for piece in rendered.split(begin):
        inside, mark, rest = piece.partition(end)
        if mark:
            spans.append((length, length + len(inside)))
        pieces += [inside, rest]
        length += len(inside) + len(rest)
    return "".join(pieces), spans
