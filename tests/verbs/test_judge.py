from __future__ import annotations

import csv
from pathlib import Path

import pytest

from attune.errors import AttuneError
from attune.verbs.judge import judge_table

COLUMNS = (
    "model,world,seq_len,global_batch,micro_batch,tp,pp,ep,etp,sequence_parallel,first,last,rank"
)
TABLE = f"""{COLUMNS},verdict
glm-4.5,128,8192,128,1,4,16,8,1,1,5,3,0,silently_wrong
glm-4.5,128,8192,128,1,4,16,7,1,1,5,3,0,legal
no-such-model,128,8192,128,1,4,16,8,1,1,5,3,0,legal
glm-4.5,128,8192,128,1,4,16,8,1,1,5,3,999,
"""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text(TABLE)
    return path


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_given_answers_are_replaced_by_our_own(table, tmp_path):
    found = judge_table(table, tmp_path / "deep" / "out.csv")
    rows = read(found.output)
    assert [row["verdict"] for row in rows] == ["legal", "illegal", "", "legal"]
    assert "ep.experts_divide" in rows[1]["rules"] and "EP (7)" in rows[1]["message"]
    assert "no-such-model" in rows[2]["message"]
    assert found.verdicts == {"legal": 2, "illegal": 1, "not judged": 1}
    assert "dense_parameters" not in rows[0]


def test_parameters_of_each_rank(table, tmp_path):
    rows = read(judge_table(table, tmp_path / "out.csv", parameters=True).output)
    assert int(rows[0]["dense_parameters"]) > 0 and int(rows[0]["expert_parameters"]) > 0
    assert rows[2]["dense_parameters"] == "" and rows[3]["dense_parameters"] == ""


def test_parameters_equal_what_megatron_built(tmp_path):
    path = Path(__file__).parent.parent / "cases" / "parameter_counts.csv"
    columns = ("dense_parameters", "expert_parameters")
    given = [[row[name] for name in columns] for row in read(path)]
    found = read(judge_table(path, tmp_path / "out.csv", parameters=True).output)
    assert [[row[name] for name in columns] for row in found] == given


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no row"),
        ("model,world\n", "no row"),
        ("model,world\nglm-4.5,128,7\n", "more cells than the header"),
        ('model,world\n"glm-4.5,128\n', "not a CSV table"),
        ("world,tp\n128,1\n", "no column `model`"),
        ("model;world\nglm-4.5;128\n", "separated by commas"),
        ("model,tp,tp\nglm-4.5,1,8\n", "two columns `tp`"),
    ],
)
def test_damaged_tables_are_refused(tmp_path, text, words):
    path = tmp_path / "in.csv"
    path.write_text(text)
    with pytest.raises(AttuneError, match=words):
        judge_table(path, tmp_path / "out.csv")


def test_binary_file_is_refused(tmp_path):
    path = tmp_path / "in.csv"
    path.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(AttuneError, match="not a CSV table"):
        judge_table(path, tmp_path / "out.csv")


def test_a_table_without_end_is_refused():
    with pytest.raises(AttuneError, match="over 100,000,000 bytes"):
        judge_table(Path("/dev/zero"), Path("out.csv"))


def test_a_rank_without_a_stage_has_no_parameters(tmp_path):
    path = tmp_path / "in.csv"
    degrees = ("0,1", "-3,1", "7,1", "999999999999,1", "1,999999999999", "16,16")
    rows = [f"glm-4.5,128,{degree},127" for degree in degrees]
    path.write_text("\n".join(["model,world,pp,vpp,rank", *rows]) + "\n")
    answers = read(judge_table(path, tmp_path / "out.csv", parameters=True).output)
    assert [row["verdict"] for row in answers] == ["illegal"] * len(degrees)
    assert {row["dense_parameters"] for row in answers} == {""}
