"""What every HTML page shares: templates that escape, filters, and the files beside the pages."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from attune.errors import AttuneError
from attune.report.words import gib, number, percent, seconds

if TYPE_CHECKING:
    from jinja2 import Environment

_PAGES = Path(__file__).resolve().parent / "pages"


def templates() -> Environment:
    """The page templates; whatever is filled in is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from attune import __version__

    environment = Environment(
        loader=FileSystemLoader(_PAGES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": number,
        "percent": percent,
        "seconds": seconds,
        "gib": gib,
        "is_figure": _is_figure,
        "word": _word,
        "is_link": _is_link,
    }
    environment.globals["version"] = __version__
    return environment


def _word(text: str) -> str:
    """A class name of a style sheet."""
    return re.sub(r"\W", "", text)


def _is_figure(text: str) -> bool:
    """Whether a cell holds one number, which stands at the right of its column."""
    return bool(re.fullmatch(r"[-+]?[\d,.]*(e[-+]?\d+)?( ?%| s| GiB)?", text))


def _is_link(url: str | None) -> bool:
    """Whether an address of somebody else's recipe may be clicked: a web page, and no script."""
    try:
        parts = urlsplit(url or "")
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)


def write_page(file: Path, text: str) -> None:
    """Writes a page, making its folder.

    Raises:
        AttuneError: the folder cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise AttuneError(f"cannot write {file}: {error.strerror}; give another -o") from error


def asset(name: str) -> str:
    """Text of a style sheet or script that pages share."""
    return (_PAGES / "assets" / name).read_text(encoding="utf-8")


def copy_assets(folder: Path) -> None:
    """Style and scripts into `folder`.

    Raises:
        AttuneError: the folder cannot be written.
    """
    try:
        shutil.copytree(_PAGES / "assets", folder, dirs_exist_ok=True)
    except (OSError, shutil.Error) as error:
        raise AttuneError(f"cannot write {folder}: {error}; give another -o") from error
