from __future__ import annotations

import json

LAYOUT = ("-m", "qwen3-8b", "-g", "h200", "-n", "8", "-l", "tp=4 overlap_gradients=on")


def test_a_framework_adds_its_own_rules_to_explain(attune):
    assert attune("explain", *LAYOUT).code == 0
    answer = attune("explain", *LAYOUT, "--framework", "slime")
    assert answer.code == 1 and "overlap.gradients_crash" in answer.out


def test_a_framework_changes_what_is_legal_in_a_plan(attune):
    words = ("plan", "-m", "qwen3-8b", "-g", "h200", "-n", "8", "--global-batch", "96", "--json")
    legal = {
        name: json.loads(attune(*words, "--framework", name).out)["funnel"]["legal"]
        for name in ("megatron-core", "slime")
    }
    assert legal["slime"] > legal["megatron-core"], "slime packs rows that do not divide evenly"


def test_an_unknown_framework_is_named(attune):
    for verb in (("plan", *LAYOUT[:6]), ("explain", *LAYOUT)):
        answer = attune(*verb, "--framework", "nope")
        assert answer.code == 2 and "no framework named `nope`" in answer.err
