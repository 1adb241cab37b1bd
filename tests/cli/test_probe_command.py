from __future__ import annotations

import json

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
