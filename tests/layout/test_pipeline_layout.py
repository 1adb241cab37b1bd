"""Megatron's explicit pipeline layouts, read as Megatron reads them."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from attune.errors import LayoutError
from attune.layout.pipeline_layout import chunk_layers, expand, implied_chunks


@pytest.mark.parametrize(
    ("text", "stages"),
    [
        ("Ettt|(tt|)*2m|L", ["Ettt", "tt", "tt", "m", "L"]),
        ("Et*3|(tt|)*2,L", ["Ettt", "tt", "tt", "L"]),
        ("Et*2|(t*2|)*2tmL", ["Ett", "tt", "tt", "tmL"]),
        ("E|t|L", ["E", "t", "L"]),
        ("Et||tL", ["Et", "", "tL"]),
        ("Et(|t)*2|tL", ["Et", "t", "t", "tL"]),
        ("Et|*2tL", ["Et", "", "tL"]),
        ("(t)*0EL", ["EL"]),
    ],
)
def test_repetitions_unfold(text, stages):
    assert expand(text) == stages


@pytest.mark.parametrize(
    "text",
    ["Et | tL", "Ex|L", "((t|)*2|)*2", "(tt|)L", "t*", "*3", "t*9999999", "(t*)9", "Et|tl"],
)
def test_what_megatron_would_not_read_is_refused(text):
    with pytest.raises(LayoutError) as caught:
        expand(text)
    assert caught.value.rule == "pipeline_layout.grammar"
    assert "Et*3|(tt|)*29L" in str(caught.value)


@pytest.mark.parametrize("text", ["t*999999", "(t*999)*999", "t" * 200_000, "(ttttt)*900000"])
def test_a_string_without_bound_is_refused_at_once(text):
    with pytest.raises(LayoutError, match="more than 100000"):
        expand(text)


def test_chunks_run_over_the_ranks_before_they_come_back():
    assert chunk_layers("Ettt|tt|t|L", 2).tolist() == [[3, 1], [2, 0]]
    assert chunk_layers("Ettt|tt|t|L", 4).tolist() == [[3], [2], [1], [0]]
    assert implied_chunks("Ettt|tt|t|L", 2) == 2


@pytest.mark.parametrize(("text", "pp"), [("Et|t|L", 2), ("nonsense", 3), ("", 2)])
def test_a_string_that_fits_no_grid_gives_empty_chunks(text, pp):
    assert chunk_layers(text, pp).tolist() == [[0]] * pp
    assert implied_chunks(text, pp) == 1


@pytest.fixture(scope="module")
def megatron():
    return pytest.importorskip("megatron.core.transformer.pipeline_parallel_layer_layout")


def read_by_megatron(megatron, text: str) -> list[str] | None:
    letters = {"embedding": "E", "decoder": "t", "mtp": "m", "loss": "L"}
    try:
        stages = megatron.PipelineParallelLayerLayout.parse_str_to_list(text)
    except AssertionError:
        return None
    return ["".join(letters[layer.name] for layer in stage) for stage in stages]


@given(st.text(alphabet="EtmL|*()0123456789, ", max_size=40))
def test_megatron_reads_the_same(megatron, text):
    try:
        ours = expand(text)
    except LayoutError as error:
        assume("more than" not in str(error) and not re.search(r"\*\d{6}", text))
        ours = None
    assert ours == read_by_megatron(megatron, text)
