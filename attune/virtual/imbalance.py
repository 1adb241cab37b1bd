"""How unevenly tokens meet the expert-parallel ranks."""

from __future__ import annotations

import numpy as np

from attune.catalog import Model
from attune.layout.table import Floats
from attune.virtual.hidden import Hidden
from attune.virtual.sizes import Sizes
from attune.workload import Workload

_BALANCED = 0.04
"""Of the natural spread, what remains where routing is forced to balance."""


def busiest(model: Model, workload: Workload, hidden: Hidden, sizes: Sizes) -> Floats:
    """Tokens of the busiest expert-parallel rank over the mean, at least 1, [n].

    The popularity of an expert has a spread s; a rank sums over its experts (s falls with the
    root of their number), and the largest of EP such sums lies sqrt(2 ln EP) spreads above the
    mean (extreme value of a normal sample).
    """
    if model.experts is None:
        return np.ones_like(sizes.ep)
    spread = hidden.imbalance * (_BALANCED if workload.routing == "balanced" else 1.0)
    local = np.maximum(model.experts.count / sizes.ep, 1)
    largest = 1 + spread / np.sqrt(local) * np.sqrt(2 * np.log(sizes.ep))
    bounded: Floats = np.minimum(largest, sizes.ep)
    return bounded


def over_layers(largest: Floats, layers: Floats, hidden: Hidden) -> Floats:
    """The imbalance that one rank keeps, summed over the layers of its stage, [n, P].

    A part of it is the same rank's in every layer; the rest averages out with their number.
    """
    kept = hidden.memory_imbalance
    share = kept + (1 - kept) / np.sqrt(np.maximum(layers, 1))
    factor: Floats = 1 + (largest[:, None] - 1) * share
    return factor
