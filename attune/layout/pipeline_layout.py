"""Megatron's explicit pipeline layout: `Et*3|(tt|)*29L`.

Grammar (megatron-core 0.16, pipeline_parallel_layer_layout.py): E embedding, t layer, m MTP
layer, L loss; `|` ends a stage; first every `(..)*n`, then every `x*n` is repeated, so groups do
not nest; commas are cosmetic, blanks are not.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from attune.errors import LayoutError

_LONGEST = 100_000
_GROUP = re.compile(r"\(([^)]+)\)\*(\d{1,6})")
_SINGLE = re.compile(r"(.)\*(\d{1,6})")


def expand(text: str) -> list[str]:
    """Stages of a layout string, in model order, each a string of E, t, m, L.

    Raises:
        LayoutError: what Megatron's own parser would not read, or a string without bound.
    """
    plain = text.replace(",", "")
    for pattern in (_GROUP, _SINGLE):
        plain = _repeat(pattern, plain, text)
    unknown = re.search(r"[^EtmL|]", plain)
    if unknown:
        raise _unreadable(text, f"`{unknown[0]}` is out of place")
    return plain.split("|")


def _repeat(pattern: re.Pattern[str], plain: str, text: str) -> str:
    longest = len(plain) + sum(len(m[1]) * int(m[2]) for m in pattern.finditer(plain))
    if longest > _LONGEST:
        raise _unreadable(text, f"it holds more than {_LONGEST} layers and stages")
    return pattern.sub(lambda match: match[1] * int(match[2]), plain)


def _unreadable(text: str, reason: str) -> LayoutError:
    return LayoutError(
        f"pipeline_layout `{text[:80]}` is not of the form `Et*3|(tt|)*29L`: {reason}",
        rule="pipeline_layout.grammar",
    )


def implied_chunks(text: str, pp: int) -> int:
    """Virtual chunks per pipeline rank that a layout string asks for; 1 where it fits no PP."""
    return len(chunk_layers(text, pp)[0])


def chunk_layers(text: str, pp: int) -> npt.NDArray[np.int64]:
    """Layers of chunk (pipeline rank, virtual chunk) of a layout string, [pp, vpp].

    A string that does not parse, or whose stages PP does not divide, gives one empty chunk per
    rank; the rules report it.
    """
    pp = max(pp, 1)
    try:
        stages = expand(text)
    except LayoutError:
        stages = []
    if not stages or len(stages) % pp:
        return np.zeros((pp, 1), dtype=np.int64)
    counts = np.array([stage.count("t") for stage in stages], dtype=np.int64)
    return counts.reshape(-1, pp).T
