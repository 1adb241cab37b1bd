"""What the builder is asked for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from attune.errors import AttuneError
from attune.rows.family import load_family

_LARGEST_ROW_TOKENS = 2**24


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildRequest:
    """A source, a tokenizer and the rows wanted of them."""

    source: str
    """Path or hub id of the conversations."""
    tokenizer: str
    """Folder or hub id with `tokenizer.json`, `tokenizer_config.json` and a chat template."""
    output: Path
    row_tokens: int = 8192
    row_count: int = 6400
    seed: int = 42
    loss_mask: str
    column: str = "messages"
    revision: str | None = None
    """Commit of the source on the hub; None takes the newest and records it."""
    tokenizer_revision: str | None = None
    processes: int | None = None
    """Processes that encode; None takes one per processor, four at most. The bytes of the
    result do not depend on it."""
    overwrite: bool = False
    restart: bool = False
    """Starts again where an unfinished build of other settings lies in the way."""

    def check(self) -> None:
        """Looks at the values alone.

        Raises:
            AttuneError: a value out of range, no such family, or the output exists.
        """
        if not 2 <= self.row_tokens <= _LARGEST_ROW_TOKENS:
            raise AttuneError(
                f"--row-tokens {self.row_tokens} is out of range; rows have 2 to "
                f"{_LARGEST_ROW_TOKENS} tokens"
            )
        if self.row_count < 1:
            raise AttuneError(f"--row-count {self.row_count} asks for no rows; give 1 or more")
        if not 0 <= self.seed < 2**64:
            raise AttuneError(f"--seed {self.seed} is out of range; give 0 to 2^64 - 1")
        if self.output.suffix != ".parquet":
            raise AttuneError(f"-o {self.output} must end in .parquet")
        if self.output.exists() and not self.overwrite:
            raise AttuneError(f"{self.output} exists; give another -o, or --overwrite")
        load_family(self.loss_mask)

    @property
    def folder(self) -> Path:
        """Where an unfinished build lies, beside its output."""
        return self.output.with_name(self.output.name + ".building")

    @property
    def workers(self) -> int:
        """Processes that encode."""
        return self.processes or min(os.cpu_count() or 1, 4)
