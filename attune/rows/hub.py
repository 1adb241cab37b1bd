"""Data sets and tokenizers of the Hugging Face hub, as local files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from attune.errors import AttuneError


def fetch(
    name: str, kind: Literal["dataset", "model"], revision: str | None, patterns: Sequence[str]
) -> tuple[Path, str]:
    """Folder and revision of a hub repository, of which only files like `patterns` are fetched.

    Raises:
        AttuneError: neither a path nor a hub id, the extra is missing, or the hub cannot be
            reached or has no such repository.
    """
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise AttuneError(
            f"no file or folder {name}; give a path, or a hub id such as `owner/name`"
        )
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise AttuneError(
            f"no folder {name}, and hub ids need an extra: pip install 'attune[hub]'"
        ) from error
    try:
        folder = Path(
            snapshot_download(
                name, repo_type=kind, revision=revision, allow_patterns=list(patterns)
            )
        )
    # The library raises errors of its own, of its HTTP client and of the file system.
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise AttuneError(
            f"cannot fetch {kind} {name}: {reason}; check name and network"
        ) from error
    # A snapshot lies in a folder named after its commit.
    return folder, folder.name
