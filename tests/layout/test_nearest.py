"""Distance between layouts."""

from __future__ import annotations

import pytest

from attune.layout import LayoutTable, parse_layout
from attune.layout.nearest import distance, nearest_layout

TEXTS = (
    "tp=4 pp=16 ep=8 first=5 last=3",
    "tp=4 pp=8 ep=8 first=10 last=10",
    "tp=2 pp=16 ep=8 first=5 last=3 recompute=full",
    "tp=4 pp=16 ep=8 first=4 last=4",
    "tp=4 pp=16 ep=8 layout=Et*46|t*46L",
)


def test_zero_only_at_itself_and_symmetric() -> None:
    layouts = [parse_layout(text) for text in TEXTS]
    table = LayoutTable.of(layouts)
    for index, layout in enumerate(layouts):
        away = distance(layout, table)
        assert away[index] == 0 and (away > 0).sum() == len(layouts) - 1
        for other, value in enumerate(away):
            assert value == pytest.approx(distance(layouts[other], table)[index])


def test_a_doubling_is_one_and_the_nearest_is_found() -> None:
    table = LayoutTable.of([parse_layout(text) for text in TEXTS])
    assert nearest_layout(parse_layout("tp=4 pp=16 ep=8 first=5 last=3"), table) == 0
    assert nearest_layout(parse_layout("tp=4 pp=16 ep=16 first=4 last=4"), table) == 3
    one = LayoutTable.of([parse_layout("tp=2 pp=4")])
    assert distance(parse_layout("tp=2 pp=8"), one)[0] == 1.0
