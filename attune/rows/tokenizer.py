"""Tokenizers: `tokenizer.json`, its control tokens and its chat template."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attune.errors import AttuneError
from attune.rows.conversation import Controls, alternatives
from attune.rows.digest import file_sha256
from attune.rows.family import Family
from attune.rows.hub import fetch
from attune.rows.template import ChatTemplate

FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
_NAMED = ("bos_token", "eos_token", "unk_token", "pad_token")


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
    data, config = _read_json(folder / FILES[0]), _read_json(folder / FILES[1])
    named = {key: _text(config[key]) for key in _NAMED if config.get(key)}
    added = _added(data, folder)
    if named.get("eos_token") not in added:
        raise AttuneError(f"{folder / FILES[1]} names no eos_token that {FILES[0]} has; add it")
    return Tokenizer(
        folder=folder,
        name=Path(name).name if Path(name).is_dir() else name,
        revision=revision,
        named=named,
        added=added,
        special=tuple(t["content"] for t in data["added_tokens"] if t.get("special")),
        template=ChatTemplate(_template(folder, config), named),
        sha256=file_sha256(folder / FILES[0]),
        vocabulary=1 + max(_from_json(data, folder).get_vocab(with_added_tokens=True).values()),
    )


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise AttuneError(f"no {path}; a tokenizer's folder holds {FILES[0]} and {FILES[1]}")
    try:
        data = json.loads(path.read_bytes())
    except ValueError as error:
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


def _text(token: Any) -> str:
    return token["content"] if isinstance(token, dict) else str(token)


def _added(data: dict[str, Any], folder: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for token in data.get("added_tokens") or ():
        if any(token.get(flag) for flag in ("lstrip", "rstrip", "single_word")):
            raise AttuneError(
                f"{folder / FILES[0]}: added token {token['content']!r} takes in the space around "
                "it, which rows do not support"
            )
        found[token["content"]] = int(token["id"])
    return found


def _template(folder: Path, config: dict[str, Any]) -> str:
    """The text of the chat template: its own file, or a field of the configuration."""
    path = folder / FILES[2]
    if path.is_file():
        return path.read_text(encoding="utf-8")
    given = config.get("chat_template")
    if isinstance(given, list):
        named = {entry.get("name"): entry.get("template") for entry in given}
        given = named.get("default")
    if not isinstance(given, str):
        raise AttuneError(f"{folder} has no chat template; put it in {FILES[2]}")
    return given
