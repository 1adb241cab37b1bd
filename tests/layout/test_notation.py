"""Layouts as text."""

from __future__ import annotations

import pytest
from any_layout import ANY_LAYOUT
from hypothesis import given

from attune.errors import AttuneError
from attune.layout import Layout, label, parse_layout, write_layout


@given(ANY_LAYOUT)
def test_what_is_written_reads_back_equal(layout):
    assert parse_layout(write_layout(layout)) == layout


@given(ANY_LAYOUT)
def test_writing_is_canonical(layout):
    text = write_layout(layout)
    assert write_layout(parse_layout(text)) == text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("", Layout()),
        (
            "tp=4 pp=16 ep=8 first=5 last=3",
            Layout(tp=4, pp=16, ep=8, first=5, last=3, sequence_parallel=True),
        ),
        ("tp=2 sp=off", Layout(tp=2)),
        ("sp=on", Layout(sequence_parallel=True)),
        ("mbs=2", Layout(rows_per_microbatch=2)),
        ("recompute=selective", Layout(recompute="selective")),
        (
            "recompute=moe,core_attn",
            Layout(recompute="selective", recompute_modules=("core_attn", "moe")),
        ),
        (
            "recompute=selective modules=mlp",
            Layout(recompute="selective", recompute_modules=("mlp",)),
        ),
        (
            "recompute=full",
            Layout(recompute="full", recompute_method="uniform", recompute_layers=1),
        ),
        (
            "recompute=full method=block recompute_num_layers=3",
            Layout(recompute="full", recompute_method="block", recompute_layers=3),
        ),
        ("recompute=full method=none recompute_layers=none", Layout(recompute="full")),
        ("offload=0.5", Layout(optimizer_offload=0.5, precision_aware_optimizer=True)),
        ("offload=0.5 precision_aware_optimizer=no", Layout(optimizer_offload=0.5)),
        ("pp=2 layout=Et|t|t|tL", Layout(pp=2, vpp=2, pipeline_layout="Et|t|t|tL")),
        ("pp=2 vpp=1 layout=Et|t|t|tL", Layout(pp=2, pipeline_layout="Et|t|t|tL")),
    ],
)
def test_what_is_left_out_follows_the_framework(text, layout):
    assert parse_layout(text) == layout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tp", ["`tp` is not of the form name=value"]),
        ("tp=", ["`tp=`"]),
        ("tp = 4", ["`tp`"]),
        ("tp=4,pp=2", ["`tp` is a whole number", "`4,pp=2`"]),
        ("tpp=4", ["no field `tpp`", "did you mean"]),
        ("sequence_paralel=on", ["did you mean `sequence_parallel`"]),
        ("dp=2", ["no field `dp`"]),
        ("tp=4 tp=2", ["`tp` is given twice"]),
        ("rows=1 mbs=1", ["`rows_per_microbatch` is given twice"]),
        ("tp=0", ["from 1", "`0`"]),
        ("tp=-2", ["`-2`"]),
        ("first=0", ["from 1", "`0`"]),
        ("pp=99999999999999999999", ["to 4096"]),
        ("tp=4.0", ["`4.0`"]),
        ("tp=٤", ["`٤`"]),
        ("tp=none", ["`none`"]),
        ("sp=maybe", ["on or off", "`maybe`"]),
        ("offload=half", ["share from 0 to 1", "`half`"]),
        ("offload=nan", ["share from 0 to 1"]),
        ("offload=1.5", ["share from 0 to 1"]),
        ("dispatcher=deepep", ["alltoall, allgather, flex", "`deepep`"]),
        ("recompute=ful", ["did you mean `full`"]),
        ("recompute=core_atn", ["did you mean `core_attn`"]),
        ("recompute=full,moe method=rows", ["`recompute_method` takes"]),
        ("recompute=moe modules=mlp", ["both name modules"]),
        ("method=unifrom", ["uniform, block", "did you mean `uniform`"]),
    ],
)
def test_a_slip_is_named(text, words):
    with pytest.raises(AttuneError) as caught:
        parse_layout(text)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("text", "count", "expected"),
    [
        ("tp=4 pp=16 ep=8", 128, "TP4 PP16 EP8 DP2"),
        ("tp=4 pp=2 cp=8 ep=32", 64, "TP4 PP2 CP8 EP32 DP1"),
        ("tp=1 pp=2 vpp=3", 16, "TP1 PP2 VPP3 EP1 DP8"),
    ],
)
def test_labels_read_as_on_recipe_pages(text, count, expected):
    assert label(parse_layout(text), count) == expected
