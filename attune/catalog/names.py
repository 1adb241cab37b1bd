"""Loose names: small and capital letters are one, and punctuation does not count."""

from __future__ import annotations

import difflib
import re


def nearest(name: str, names: list[str]) -> str | None:
    """The entry of `names` that is spelt most like `name`, or None."""
    by_letters = {folded(x): x for x in names}
    close = difflib.get_close_matches(folded(name), list(by_letters), n=1, cutoff=0.4)
    return by_letters[close[0]] if close else None


def folded(name: str) -> str:
    """The letters and digits of a name, small."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
