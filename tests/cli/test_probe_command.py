from __future__ import annotations

import json

import pytest

GLM = ("-m", "glm-4.5", "-g", "h200", "-n", "128", "--launcher", "simulated")
LAYOUT = "tp=4 pp=16 ep=8 first=5 last=3"


def test_memory_says_whether_it_fits(attune):
    answer = attune("probe", "memory", *GLM, "-l", LAYOUT)
    assert answer.code == 0
    assert "stage 1 fits" in answer.out and "SIMULATED" in answer.out and "predicted" in answer.out
    assert "measured," not in answer.out.split("not measured")[0]


def test_memory_as_json(attune):
    found = json.loads(attune("probe", "memory", *GLM, "-l", LAYOUT, "--json").out)
    assert found["fits"] is True and found["ranks"][0]["rank"] == 8
    assert found["ranks"][0]["reserved_gib"] > found["ranks"][0]["allocated_gib"]


def test_what_does_not_fit_exits_with_1(attune):
    answer = attune("probe", "memory", *GLM, "-l", "tp=2 pp=8 ep=8 first=12 last=8")
    assert answer.code == 1 and "does not fit" in answer.out


def test_bad_rank_is_one_message(attune):
    answer = attune("probe", "memory", *GLM, "-l", LAYOUT, "--rank", "200")
    assert answer.code == 2 and "0 to 127" in answer.err and "Traceback" not in answer.err


def test_layers_beside_the_prediction(attune):
    answer = attune("probe", "layers", *GLM, "-l", LAYOUT)
    assert answer.code == 0 and "SIMULATED" in answer.out
    table = [line for line in answer.out.splitlines() if line.rstrip().endswith("%")]
    assert len(table) == 3 and max(map(len, table)) <= 80
    assert "s with these layers" in answer.out


def test_layers_as_json(attune):
    found = json.loads(attune("probe", "layers", *GLM, "-l", LAYOUT, "--json").out)
    assert [one["measured"]["kind"] for one in found["layers"]] == ["dense", "moe", "head"]
    assert found["result"]["provenance"] == "predicted"


def test_layers_that_need_two_nodes_are_one_message(attune):
    answer = attune("probe", "layers", *GLM, "-l", "tp=8 pp=4 cp=2 ep=8")
    assert answer.code == 2 and "one node of 8" in answer.err


def test_layers_on_this_machine_teach_the_next_prediction(attune):
    pytest.importorskip("megatron.core", reason="the train extra is not installed")
    cpu = ("-m", "tiny-moe", "-g", "cpu", "-n", "1", "-l", "tp=1")
    found = json.loads(attune("probe", "layers", *cpu, "--json").out)
    assert found["result"]["provenance"] == "measured" and found["learnt"]["trials"] == 1
    (known,) = json.loads(attune("calibration", "--json").out)
    assert known["gpu"] == "cpu" and known["cells"] == 1
