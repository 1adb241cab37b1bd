"""Tokenizers: `tokenizer.json`, its control tokens and its chat template."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from attune.errors import AttuneError
from attune.rows.conversation import Controls, alternatives
from attune.rows.digest import file_sha256
from attune.rows.family import Family
from attune.rows.hub import fetch
from attune.rows.template import ChatTemplate

FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
_NAMED = ("bos_token", "eos_token", "unk_token", "pad_token")

Part = TypeVar("Part", bound=BaseModel)


@dataclass(frozen=True, kw_only=True)
class Tokenizer:
    """A tokenizer that knows which of its tokens are control tokens."""

    folder: Path
    name: str
    revision: str | None
    named: dict[str, str]
    """`eos_token` and the like."""
    added: dict[str, int]
    """Id of every added token by its text."""
    special: tuple[str, ...]
    """Added tokens that are control tokens proper."""
    template: ChatTemplate
    sha256: str
    vocabulary: int
    """One more than the largest id."""

    @property
    def separator(self) -> str:
        """The end-of-sequence token that stands between conversations."""
        return self.named["eos_token"]

    @property
    def splitter(self) -> re.Pattern[str]:
        """Matches every added token, in a group so that splitting keeps them."""
        return re.compile(f"({alternatives(list(self.added)).pattern})")

    def controls(self, family: Family | None) -> Controls:
        """What the authors of messages may not write."""
        markers = family.markers if family else ()
        return Controls.of([*self.special, *markers], list(self.added))

    def plain(self) -> Any:
        """A `tokenizers.Tokenizer` that knows no control tokens, so none can be typed."""
        data = self._data()
        for key in ("post_processor", "truncation", "padding"):
            data[key] = None
        data["added_tokens"] = []
        return _from_json(data, self.folder)

    def whole(self) -> Any:
        """The `tokenizers.Tokenizer` as it comes."""
        return _from_json(self._data(), self.folder)

    def _data(self) -> dict[str, Any]:
        return _read_json(self.folder / FILES[0])


def load_tokenizer(name: str, revision: str | None = None) -> Tokenizer:
    """The tokenizer in a folder, or of a hub id.

    Raises:
        AttuneError: no such folder, a missing or damaged file, no chat template, no
            end-of-sequence token, or a kind of added token that is not supported.
    """
    folder = Path(name)
    if not folder.is_dir():
        folder, revision = fetch(name, "model", revision, FILES)
    data = _read_json(folder / FILES[0])
    config = _parsed(_Config, _read_json(folder / FILES[1]), folder / FILES[1])
    tokens = _parsed(_AddedTokens, data, folder / FILES[0]).added_tokens or ()
    _check_added(tokens, folder / FILES[0])
    added, named = {token.content: token.id for token in tokens}, config.named
    if named.get("eos_token") not in added:
        raise AttuneError(f"{folder / FILES[1]} names no eos_token that {FILES[0]} has; add it")
    return Tokenizer(
        folder=folder,
        name=Path(name).name if Path(name).is_dir() else name,
        revision=revision,
        named=named,
        added=added,
        special=tuple(token.content for token in tokens if token.special),
        template=ChatTemplate(_template(folder, config), named),
        sha256=file_sha256(folder / FILES[0]),
        vocabulary=1 + max(_from_json(data, folder).get_vocab(with_added_tokens=True).values()),
    )


class _AddedToken(BaseModel):
    id: int = Field(ge=0)
    content: str = Field(min_length=1)
    special: bool = False
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False


class _AddedTokens(BaseModel):
    """What is read here of `tokenizer.json`."""

    added_tokens: list[_AddedToken] | None = None


class _NamedToken(BaseModel):
    content: str


class _NamedTemplate(BaseModel):
    name: str
    template: str


class _Config(BaseModel):
    """What is read here of `tokenizer_config.json`."""

    bos_token: str | _NamedToken | None = None
    eos_token: str | _NamedToken | None = None
    unk_token: str | _NamedToken | None = None
    pad_token: str | _NamedToken | None = None
    chat_template: str | list[_NamedTemplate] | None = None

    @property
    def named(self) -> dict[str, str]:
        """Text of each named token."""
        tokens = {name: getattr(self, name) for name in _NAMED}
        return {
            name: token.content if isinstance(token, _NamedToken) else token
            for name, token in tokens.items()
            if token
        }

    @property
    def template(self) -> str | None:
        """The chat template; of several, the default one."""
        if not isinstance(self.chat_template, list):
            return self.chat_template
        named = {entry.name: entry.template for entry in self.chat_template}
        return named.get("default")


def _parsed(kind: type[Part], data: dict[str, Any], path: Path) -> Part:
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise AttuneError(f"{path} is damaged: {place}: {first['msg']}; copy it again") from error


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise AttuneError(f"no {path}; a tokenizer's folder holds {FILES[0]} and {FILES[1]}")
    try:
        data = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise AttuneError(f"{path} is not JSON: {error}; copy it again") from error
    if not isinstance(data, dict):
        raise AttuneError(f"{path} is no mapping; copy it again")
    return data


def _from_json(data: dict[str, Any], folder: Path) -> Any:
    from tokenizers import Tokenizer as Fast

    try:
        return Fast.from_str(json.dumps(data))
    # The library raises plain `Exception` for whatever it cannot read.
    except Exception as error:
        raise AttuneError(f"{folder / FILES[0]} is no tokenizer: {error}") from error


def _check_added(tokens: Iterable[_AddedToken], path: Path) -> None:
    for token in tokens:
        if token.lstrip or token.rstrip or token.single_word:
            raise AttuneError(
                f"{path}: added token {token.content!r} takes in the space around "
                "it, which rows do not support"
            )


def _template(folder: Path, config: _Config) -> str:
    """The text of the chat template: its own file, or a field of the configuration."""
    path = folder / FILES[2]
    if path.is_file():
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise AttuneError(f"{path} is not UTF-8; copy it again") from error
    if config.template is None:
        raise AttuneError(f"{folder} has no chat template; put it in {FILES[2]}")
    return config.template
