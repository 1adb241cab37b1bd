"""The checkpoint that every arm of an experiment starts from, in a format that no layout is in."""

from __future__ import annotations

import hashlib
from pathlib import Path

from attune.errors import AttuneError
from attune.trial.setup import Setup

_NAMES = (".metadata", "metadata.json", "common.pt")
"""Files of a distributed checkpoint (torch_dist) that say what it holds."""
_TRACKER = "latest_checkpointed_iteration.txt"
_SAMPLE = 1 << 20
"""Bytes read of the beginning and the end of every shard: all of them would be terabytes."""


def checkpoint_digest(folder: Path) -> str:
    """Digest of a distributed checkpoint.

    SHA-256 over name, size, first and last MiB of every file of its iteration, in order of name:
    two checkpoints that were made apart differ in their shards' first bytes.

    Raises:
        AttuneError: no such folder, or nothing distributed in it.
    """
    place = _iteration(folder)
    files = sorted(path for path in place.rglob("*") if path.is_file())
    if not any(path.name in _NAMES for path in files):
        raise AttuneError(
            f"{folder} holds no distributed checkpoint (torch_dist); convert the weights first"
        )
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(place)}\0{path.stat().st_size}\0".encode())
        digest.update(_ends(path))
    return digest.hexdigest()


def name_checkpoint(setup: Setup) -> Setup:
    """The setup with the digest of its checkpoint, where that lies on this machine.

    Raises:
        AttuneError: it is another checkpoint than the setup names, or none at all.
    """
    if setup.checkpoint is None or not Path(setup.checkpoint).is_dir():
        return setup
    digest = checkpoint_digest(Path(setup.checkpoint))
    if setup.checkpoint_sha256 not in (None, digest):
        raise AttuneError(
            f"{setup.checkpoint} is another checkpoint: its digest is {digest}, and the setup "
            f"names {setup.checkpoint_sha256}; name the first one, or start anew"
        )
    return setup.model_copy(update={"checkpoint_sha256": digest})


def _iteration(folder: Path) -> Path:
    """The folder of the iteration that the tracker names: `release` or `iter_0000000`."""
    try:
        name = (folder / _TRACKER).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return folder
    except (OSError, UnicodeDecodeError) as error:
        raise AttuneError(f"cannot read the checkpoint {folder}: {error}; check it") from error
    return folder / (f"iter_{int(name):07d}" if name.isdecimal() else name)


def _ends(path: Path) -> bytes:
    with path.open("rb") as file:
        first = file.read(_SAMPLE)
        rest = path.stat().st_size - len(first)
        file.seek(-min(rest, _SAMPLE), 2) if rest > 0 else None
        return first + (file.read() if rest > 0 else b"")
