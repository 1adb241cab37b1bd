"""First and last stage counts worth trying where a pipeline is not, or need not be, even."""

from __future__ import annotations

from functools import lru_cache

from attune.catalog import Indexer, Model

Choice = tuple[int | None, int | None]
"""Layers of the first and of the last stage; None where not given."""


def stage_choices(model: Model, pp: int, vpp: int = 1, at_most: int = 3) -> tuple[Choice, ...]:
    """The even split where it is legal, then those with the lightest heaviest stage.

    The head counts as the layers that its parameters make up; every chunk of an indexer model
    starts on a layer that computes its own index. Empty where no split is legal.
    """
    if pp <= 1:
        return ((None, None),) if vpp == 1 else ()
    return _choices(model.layers, model.indexer, head_in_layers(model), pp, vpp)[:at_most]


@lru_cache(maxsize=4096)
def _choices(
    layers: int, indexer: Indexer | None, head: float, pp: int, vpp: int
) -> tuple[Choice, ...]:
    found: list[tuple[bool, float, float, Choice]] = []
    for first, middle, last in _splits(layers, pp, vpp):
        if _starts_compute(indexer, pp, vpp, first, middle, last):
            loads = [first, *([middle] if pp > 2 else []), last + head]
            choice = _written(pp, vpp, first, middle, last)
            uneven = choice != (None, None)
            found.append((uneven, max(loads), max(loads) - min(loads), choice))
    return tuple(x[3] for x in sorted(found, key=lambda x: (*x[:3], str(x[3]))))


def _splits(layers: int, pp: int, vpp: int) -> list[tuple[int, int, int]]:
    """All (first, middle, last), each a positive multiple of vpp, within twice an even share."""
    most = 2 * -(-layers // pp)
    if pp == 2:
        pairs = [(first, 0, layers - first) for first in range(vpp, layers, vpp)]
        return [x for x in pairs if x[2] % vpp == 0 and max(x) <= most]
    splits = []
    for middle in range(vpp, min(most, (layers - 2) // (pp - 2)) + 1, vpp):
        ends = layers - middle * (pp - 2)
        for first in range(vpp, min(most, ends - 1) + 1, vpp):
            last = ends - first
            if last % vpp == 0 and last <= most:
                splits.append((first, middle, last))
    return splits


def _starts_compute(
    indexer: Indexer | None, pp: int, vpp: int, first: int, middle: int, last: int
) -> bool:
    if indexer is None:
        return True
    stages = [first, *[middle] * (pp - 2), last]
    start = 1
    for _ in range(vpp):
        for layers in stages:
            if not indexer.computes(start):
                return False
            start += layers // vpp
    return True


def _written(pp: int, vpp: int, first: int, middle: int, last: int) -> Choice:
    """The flags for a split: none when even; one when two interleaved stages take only one."""
    if first == last and middle in (0, first):
        return None, None
    return (first, None) if pp == 2 and vpp > 1 else (first, last)


def head_in_layers(model: Model) -> float:
    """Parameters of the output head over the active parameters of one layer."""
    attention = 2 * model.hidden * model.head_dim * (model.heads + model.query_groups)
    width = model.ffn
    if model.experts:
        width = model.experts.top_k * model.experts.ffn + model.experts.shared_ffn
    mlp = (3 if model.gated else 2) * model.hidden * width
    return model.vocabulary * model.hidden / (attention + mlp)
