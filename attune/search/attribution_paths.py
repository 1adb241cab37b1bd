"""Paths from one layout to another, one knob at a time, and what each knob contributes.

A place is the set of knobs turned so far, as a bit mask. The contribution of a knob is the mean,
over the legal orders in which the knobs can be turned, of what it adds where its turn comes (the
Shapley value over those orders); so the contributions add up to the whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from attune.layout import Layout
from attune.search.notes import KNOBS, knobs_changed

MOST_KNOBS = 10
"""Knobs turned one by one; of more, the last ones go together (2^10 layouts are estimated)."""


@dataclass(frozen=True, kw_only=True)
class Steps:
    """The steps between two layouts: knobs that are turned alone or, where need be, together."""

    start: Layout
    end: Layout
    groups: tuple[tuple[str, ...], ...]

    @classmethod
    def between(cls, start: Layout, end: Layout) -> Steps:
        """One step for each knob in which the layouts differ."""
        knobs = knobs_changed(start, end)
        groups = [(knob,) for knob in knobs[: MOST_KNOBS - 1]]
        rest = tuple(knobs[MOST_KNOBS - 1 :])
        return cls(start=start, end=end, groups=(*groups, rest) if rest else tuple(groups))

    @property
    def full(self) -> int:
        """The place at the end."""
        return (1 << len(self.groups)) - 1

    def layout(self, place: int) -> Layout:
        """The layout at a place."""
        changes = {
            name: getattr(self.end, name)
            for bit, group in enumerate(self.groups)
            if place >> bit & 1
            for knob in group
            for name in KNOBS[knob]
        }
        return replace(self.start, **changes)

    def joined(self, first: int, second: int) -> Steps:
        """These steps with two of them taken together."""
        both = self.groups[first] + self.groups[second]
        rest = [g for i, g in enumerate(self.groups) if i not in (first, second)]
        return replace(self, groups=(both, *rest))


@dataclass(frozen=True)
class Paths:
    """The paths over the places that may be passed."""

    steps: int
    open_places: frozenset[int]

    @cached_property
    def into(self) -> Mapping[int, int]:
        """Number of paths from the start to each place."""
        number = dict.fromkeys(range(1 << self.steps), 0) | {0: int(0 in self.open_places)}
        for place in range(1, 1 << self.steps):
            if place in self.open_places:
                number[place] = sum(number[place ^ bit] for bit in _bits(place))
        return number

    @cached_property
    def out(self) -> Mapping[int, int]:
        """Number of paths from each place to the end."""
        full = (1 << self.steps) - 1
        number = dict.fromkeys(range(1 << self.steps), 0) | {full: int(full in self.open_places)}
        for place in range(full - 1, -1, -1):
            if place in self.open_places:
                number[place] = sum(number[place | bit] for bit in _bits(full ^ place))
        return number

    @property
    def number(self) -> int:
        """Paths from start to end."""
        return self.out[0]

    def coefficients(self, step: int) -> dict[int, float]:
        """Weight of each place's value in the contribution of a step; they add up to 0."""
        weights: dict[int, float] = {}
        bit = 1 << step
        for place in range(1 << self.steps):
            if not place & bit:
                share = self.into[place] * self.out[place | bit] / self.number
                if share:
                    weights[place | bit] = weights.get(place | bit, 0.0) + share
                    weights[place] = weights.get(place, 0.0) - share
        return weights

    def cheapest(self, cost: Mapping[int, float]) -> tuple[int, ...]:
        """The places of a path of least total cost, start and end included."""
        full = (1 << self.steps) - 1
        best: dict[int, tuple[float, tuple[int, ...]]] = {full: (cost[full], (full,))}
        for place in range(full - 1, -1, -1):
            ways = [best[place | b] for b in _bits(full ^ place) if place | b in best]
            if ways and place in self.open_places:
                total, path = min(ways)
                best[place] = (total + cost[place], (place, *path))
        return best[0][1]


def _bits(places: int) -> list[int]:
    return [1 << bit for bit in range(places.bit_length()) if places >> bit & 1]
