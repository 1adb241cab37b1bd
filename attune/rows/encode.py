"""Conversations to tokens and their mask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attune.errors import AttuneError
from attune.rows.conversation import BREAK, UnusableError, read_conversation
from attune.rows.family import load_family
from attune.rows.parquet import Ids, Mask
from attune.rows.spans import Marked, Marker
from attune.rows.tokenizer import Tokenizer

_REMEMBERED_CHARACTERS = 32
_REMEMBERED = 100_000
"""Short texts between control tokens (`user\\n`) come again and again; their ids are kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoded:
    """Conversations as one stream of tokens, each followed by the separator."""

    ids: Ids
    mask: Mask
    skipped: Counter[str]
    """Conversations left out, by reason."""


@dataclass(slots=True)
class _Piece:
    """Text between two control tokens, or one control token."""

    text: str
    control: int | None
    bounds: list[tuple[int, bool]]
    """(character, supervised from there on), the first at 0."""
    ids: Any = field(default=())
    starts: list[int] = field(default_factory=list)
    """Token at which each bound's stretch begins."""


class Encoder:
    """Turns records of a source into tokens, with one tokenizer and one family's masks."""

    def __init__(self, tokenizer: Tokenizer, loss_mask: str, column: str = "messages") -> None:
        """Loads what encoding needs.

        Raises:
            AttuneError: no such family, or one that this tokenizer or template does not fit.
        """
        self.tokenizer = tokenizer
        self.column = column
        self.family = load_family(loss_mask)
        self._marker = Marker(self.family)
        self._controls = tokenizer.controls(self.family)
        self._splitter = tokenizer.splitter
        self._plain = tokenizer.plain()
        self._separator = tokenizer.added[tokenizer.separator]
        self._kept: dict[str, list[int]] = {}
        self._check_fit(loss_mask)

    def _check_fit(self, loss_mask: str) -> None:
        if self.family is None:
            if not self.tokenizer.template.marks_generation:
                raise AttuneError(
                    "the chat template marks no `{% generation %}` block; "
                    "give the --loss-mask of its format"
                )
            return
        added = self.tokenizer.added
        missing = [m for m in self.family.openers if m not in added]
        if not any(stop in added for stop in self.family.stops):
            missing += self.family.stops
        if missing:
            raise AttuneError(
                f"loss mask {loss_mask} needs {', '.join(missing)}, which tokenizer "
                f"{self.tokenizer.name} has not; give the --loss-mask of its format"
            )

    def encode(self, records: Iterable[Any]) -> Encoded:
        """The stream of all usable records, in order.

        A record may be an `UnusableError`, which is counted like those that show up here.
        """
        skipped: Counter[str] = Counter()
        pieces: list[_Piece] = []
        for record in records:
            try:
                marked = self._marked(record)
            except UnusableError as error:
                skipped[str(error)] += 1
                continue
            pieces += self._pieces(marked)
            pieces.append(self._end(marked))
        self._tokenize(pieces)
        return Encoded(ids=_ids(pieces), mask=_mask(pieces), skipped=skipped)

    def check_cut(self, records: Iterable[Any]) -> None:
        """Compares with the library on whole texts, where no control token is typed.

        Raises:
            AttuneError: cutting the text at control tokens changes this tokenizer's tokens.
        """
        whole = self.tokenizer.whole()
        for record in records:
            try:
                marked = self._marked(record)
            except UnusableError:
                continue
            pieces = self._pieces(marked)
            self._tokenize(pieces)
            expected = whole.encode(marked.text, add_special_tokens=False).ids
            if BREAK not in marked.text and _ids(pieces).tolist() != expected:
                raise AttuneError(
                    f"tokenizer {self.tokenizer.name} joins text across its control tokens, "
                    "which rows do not support"
                )

    def _marked(self, record: Any) -> Marked:
        if isinstance(record, UnusableError):
            raise record
        conversation = read_conversation(record, self.column, self._controls)
        rendered = self.tokenizer.template.render(conversation)
        return self._marker.mark(rendered, conversation.learnt)

    def _end(self, marked: Marked) -> _Piece:
        stops = self.family.stops if self.family else ()
        supervised = marked.open and self.tokenizer.separator in stops
        return _Piece("", self._separator, [(0, supervised)])

    def _pieces(self, marked: Marked) -> list[_Piece]:
        """Cuts the text at its control tokens; those that somebody typed are broken still."""
        pieces, place = [], 0
        changes = _changes(marked)
        for number, text in enumerate(self._splitter.split(marked.text)):
            if not text:
                continue
            control = self.tokenizer.added[text] if number % 2 else None
            pieces.append(_piece(text, control, place, changes))
            place += len(text)
        return pieces

    def _tokenize(self, pieces: list[_Piece]) -> None:
        """Fills in the tokens of every piece: one batch of the library for all the new ones."""
        new: list[_Piece] = []
        for piece in pieces:
            if piece.control is not None:
                piece.ids, piece.starts = (piece.control,), [0]
            elif len(piece.bounds) == 1 and piece.text in self._kept:
                piece.ids, piece.starts = self._kept[piece.text], [0]
            else:
                new.append(piece)
        texts = [piece.text for piece in new]
        encodings = self._plain.encode_batch(texts, add_special_tokens=False) if texts else ()
        for piece, encoding in zip(new, encodings, strict=True):
            piece.ids = encoding.ids
            piece.starts = [_token(encoding, place, piece.text) for place, _ in piece.bounds]
            self._remember(piece)

    def _remember(self, piece: _Piece) -> None:
        if len(piece.text) <= _REMEMBERED_CHARACTERS and len(self._kept) < _REMEMBERED:
            self._kept[piece.text] = piece.ids


def _changes(marked: Marked) -> list[tuple[int, bool]]:
    """(character, supervised from there on), from 0, in order."""
    changes = [(0, False)]
    for start, end in marked.spans:
        changes += [(start, True), (end, False)]
    return changes


def _piece(text: str, control: int | None, place: int, changes: list[tuple[int, bool]]) -> _Piece:
    """The piece at `place`; drops the changes that lie before it, for pieces come in order."""
    while len(changes) > 1 and changes[1][0] <= place:
        changes.pop(0)
    inside = [c for c in changes[1:] if c[0] < place + len(text)]
    bounds = [(0, changes[0][1])]
    bounds += [(_unbroken(text[: at - place]), on) for at, on in inside]
    return _Piece(text.replace(BREAK, "") if BREAK in text else text, control, bounds)


def _unbroken(text: str) -> int:
    """Characters of a text, breaks apart."""
    return len(text) - text.count(BREAK)


def _token(encoding: Any, place: int, text: str) -> int:
    """First token that starts at character `place` or after it."""
    if place == 0:
        return 0
    for at in range(place, len(text)):
        token = encoding.char_to_token(at)
        if token is not None:
            start, _ = encoding.token_to_chars(token)
            return int(token) + int(start < place)
    return len(encoding.ids)


def _ids(pieces: list[_Piece]) -> Ids:
    flat = [token for piece in pieces for token in piece.ids]
    return np.array(flat, dtype=np.int32)


def _mask(pieces: list[_Piece]) -> Mask:
    """Stretches of equal supervision, written out token by token."""
    values: list[bool] = []
    lengths: list[int] = []
    for piece in pieces:
        ends = [*piece.starts[1:], len(piece.ids)]
        for (_, on), start, end in zip(piece.bounds, piece.starts, ends, strict=True):
            values.append(on)
            lengths.append(end - start)
    return np.repeat(np.array(values, dtype=np.uint8), np.array(lengths, dtype=np.int64))
