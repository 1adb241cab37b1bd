from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from attune.layout import Layout, LayoutTable
from attune.virtual.draws import factors, generator
from attune.virtual.hidden import Hidden, draw_hidden
from attune.virtual.interactions import AMPLITUDE, interaction

NEAR_0 = 0.6773405692463297


def test_a_generator_depends_on_its_words_alone() -> None:
    first = generator("a", 1).normal(size=3)
    generator("other").normal()
    assert generator("a", 1).normal(size=3).tolist() == first.tolist()
    assert generator("a1").normal() != generator("a", 1).normal()


def test_a_generator_gives_the_same_numbers_on_every_machine() -> None:
    assert generator("near", 0).uniform() == pytest.approx(NEAR_0, abs=1e-12)


def test_factors_are_equal_where_the_keys_are() -> None:
    keys = [np.array([1.0, 2.0, 1.0]), np.array([8.0, 8.0, 8.0])]
    drawn = factors(0.1, keys, "x")
    assert drawn[0] == drawn[2] != drawn[1]
    assert drawn[1] == factors(0.1, [keys[0][1:], keys[1][1:]], "x")[0]


@pytest.mark.parametrize(("kind", "most"), [("near", 2.5), ("far", 2.01)])
def test_terms_stay_within_reach_of_the_middle(kind: str, most: float) -> None:
    middle = Hidden()
    for seed in range(20):
        hidden = draw_hidden(kind, seed)
        for item in fields(Hidden):
            ratio = getattr(hidden, item.name) / getattr(middle, item.name)
            assert 1 / most < ratio < most, item.name
            assert getattr(hidden, item.name) <= item.metadata["highest"]


def test_far_terms_are_farther_than_near_ones() -> None:
    spread = {
        kind: np.std([np.log(draw_hidden(kind, seed).gemm) for seed in range(40)])
        for kind in ("near", "far")
    }
    assert spread["far"] > 3 * spread["near"]


def test_interactions_of_dense_models_are_smaller() -> None:
    table = LayoutTable.of([Layout(tp=2), Layout(tp=4, pp=2)])
    moe, dense = (np.log(interaction(table, "far", 0, experts=x)) for x in (True, False))
    assert (np.abs(dense) < np.abs(moe)).all()


def test_interactions_have_their_spread_and_are_smooth() -> None:
    layouts = [
        Layout(tp=tp, pp=pp, ep=ep, cp=cp)
        for tp in (1, 2, 4, 8)
        for pp in (1, 2, 4, 8, 16)
        for ep in (1, 2, 4, 8, 16)
        for cp in (1, 2, 4)
    ]
    table = LayoutTable.of(layouts)
    for kind, amplitude in AMPLITUDE.items():
        logs = [np.log(interaction(table, kind, seed, experts=True)) for seed in range(30)]
        assert 0.6 * amplitude < np.sqrt(np.mean(np.square(logs))) < 1.4 * amplitude
    twins = LayoutTable.of([Layout(tp=2, first=5), Layout(tp=2, first=6)])
    logs = np.log(interaction(twins, "near", 0, experts=True))
    assert abs(logs[0] - logs[1]) < 0.3 * AMPLITUDE["near"]
