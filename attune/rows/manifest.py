"""The manifest beside a file of rows: all that a recipe's `dataset:` block needs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from attune.errors import AttuneError

_LARGEST_BYTES = 1 << 20
Sha256 = str


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SourceRecord(_Part):
    """Where the conversations come from."""

    name: str
    """As the builder was given it: a path's last part, or a hub id."""
    revision: str | None = None
    license: str | None = None
    conversations: int = Field(ge=0)
    """Conversations in the source."""
    sha256: Sha256
    """Over the lines of the source in order, parquet unpacked to JSON lines."""


class TokenizerRecord(_Part):
    """What turned conversations into tokens."""

    name: str
    revision: str | None = None
    tokenizer_sha256: Sha256
    """Of `tokenizer.json`."""
    template_sha256: Sha256
    """Of the chat template's text."""
    vocabulary: int = Field(gt=0)
    """One more than the largest id that the tokenizer knows."""
    separator: str
    """End-of-sequence token between conversations."""


class Manifest(_Part):
    """What is in a file of rows, and how it was made."""

    format: Literal["attune-rows-1"] = "attune-rows-1"
    builder: str
    """Program and version."""
    rows_sha256: Sha256 = Field(pattern="^[0-9a-f]{64}$")
    """Digest as `RowsDigest` defines it."""
    parquet_sha256: Sha256 = Field(pattern="^[0-9a-f]{64}$")
    parquet_bytes: int = Field(gt=0)
    row_count: int = Field(gt=0)
    row_tokens: int = Field(gt=1)
    supervised_tokens: int = Field(gt=0)
    largest_id: int = Field(ge=0)
    loss_mask: str
    seed: int
    conversations_used: int = Field(ge=0)
    """Conversations read in permuted order until the rows were full, unusable ones included."""
    skipped: dict[str, int] = {}
    """Conversations left out, by reason."""
    rows_without_target: int = 0
    source: SourceRecord
    tokenizer: TokenizerRecord

    @property
    def supervised_ratio(self) -> float:
        """Share of tokens that carry a loss."""
        return self.supervised_tokens / (self.row_count * self.row_tokens)

    def text(self) -> str:
        """The manifest as JSON."""
        return self.model_dump_json(indent=2) + "\n"


def manifest_path(rows: Path) -> Path:
    """`rows.parquet` has its manifest in `rows.parquet.json`."""
    return rows.with_name(rows.name + ".json")


def load_manifest(rows: Path) -> Manifest:
    """The manifest of a file of rows.

    Raises:
        AttuneError: no such file, no manifest beside it, or a damaged one.
    """
    path = manifest_path(rows)
    if not rows.is_file():
        raise AttuneError(f"no file of rows {rows}; make one with `attune rows build`")
    if not path.is_file():
        raise AttuneError(f"{rows} has no manifest {path.name} beside it; copy both files together")
    if path.stat().st_size > _LARGEST_BYTES:
        raise AttuneError(f"{path} is larger than any manifest; build the rows again")
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise AttuneError(
            f"{path} is damaged: {place}: {first['msg']}; build the rows again"
        ) from error
