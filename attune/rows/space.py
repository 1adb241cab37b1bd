"""A full disk, told in words."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attune.errors import AttuneError


@contextmanager
def space_for(output: Path) -> Iterator[None]:
    """What runs inside needs room on the disk for `output`.

    Raises:
        AttuneError: there is no space left.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise AttuneError(
            f"no space left for {output}; free some, and repeat the command"
        ) from error
