"""Builds, checks and shows the rows that trials train on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from attune.errors import AttuneError

if TYPE_CHECKING:
    from attune.rows.build import BuildProgress
    from attune.rows.check import RowsCheck
    from attune.rows.manifest import Manifest
    from attune.rows.request import BuildRequest
    from attune.rows.show import ShownRow


def build_rows(request: BuildRequest) -> Iterator[BuildProgress | Manifest]:
    """Builds a file of rows; yields how far it is, and the manifest last.

    Raises:
        AttuneError: a wrong value, source or tokenizer, a source too short for the rows asked, no
            space left, or the extra `rows` is missing.
    """
    _need_extra()
    from attune.rows.build import build_rows as build

    return build(request)


def check_rows(path: Path) -> RowsCheck:
    """Checks a file of rows against its manifest.

    Raises:
        AttuneError: no such file or manifest, or the extra `rows` is missing.
    """
    _need_extra()
    from attune.rows.check import check_rows as check

    return check(path)


def show_row(path: Path, row: int, tokenizer: str | None = None) -> ShownRow:
    """One row of a file, as text where the tokenizer is given.

    Raises:
        AttuneError: no such file, row or tokenizer, or the extra `rows` is missing.
    """
    _need_extra()
    from attune.rows.show import show_row as show

    return show(path, row, tokenizer)


def convert_rows(path: Path, target: Path, *, overwrite: bool = False) -> int:
    """Writes rows as Megatron-Bridge reads them, and gives their number.

    Raises:
        AttuneError: as `to_bridge`, or the extra `rows` is missing.
    """
    _need_extra()
    from attune.rows.convert import to_bridge

    return to_bridge(path, target, overwrite=overwrite)


def _need_extra() -> None:
    try:
        import jinja2  # noqa: F401
        import pyarrow  # noqa: F401
        import tokenizers  # noqa: F401
    except ImportError as error:
        raise AttuneError(
            f"rows need an extra ({error.name} is missing): pip install 'attune[rows]'"
        ) from error
