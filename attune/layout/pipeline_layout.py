"""Megatron's explicit pipeline layout: `Et*3|(tt|)*29L`.

Grammar (megatron-core 0.16, pipeline_parallel_layer_layout.py): E embedding, t layer, m MTP
layer, L loss; `|` ends a stage; `x*n` and `(..)*n` repeat; commas are cosmetic.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from attune.errors import LayoutError

_LONGEST = 100_000
_GROUP = re.compile(r"\(([^()]*)\)(?:\*(\d{1,4}))?")
_SINGLE = re.compile(r"([EtmL|])\*(\d{1,4})")


def expand(text: str) -> list[str]:
    """Stages of a layout string, in model order, each a string of E, t, m, L.

    Raises:
        LayoutError: a character or a parenthesis that the grammar does not know.
    """
    plain = text.replace(",", "").replace(" ", "")
    while True:
        match = _GROUP.search(plain)
        if match is None:
            break
        plain = plain[: match.start()] + match[1] * int(match[2] or 1) + plain[match.end() :]
        if len(plain) > _LONGEST:
            break
    plain = _SINGLE.sub(lambda match: match[1] * int(match[2]), plain)
    if len(plain) > _LONGEST or re.search(r"[^EtmL|]", plain):
        raise LayoutError(
            f"pipeline_layout `{text[:80]}` is not of the form `Et*3|(tt|)*29L`",
            rule="pipeline_layout.grammar",
        )
    return plain.split("|")


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
