"""Verdicts equal to those of Megatron itself (tests/cases/README.md)."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from attune.layout.judge_csv import JudgedRow, judge_rows

CASES = Path(__file__).parent.parent / "cases" / "legality.csv"
ANSWERS = ("verdict", "stage", "error", "note", "origin")


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    with CASES.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def judged(rows: list[dict[str, str]]) -> list[JudgedRow]:
    return judge_rows({k: v for k, v in row.items() if k not in ANSWERS} for row in rows)


def test_every_verdict_equals_megatrons(
    rows: list[dict[str, str]], judged: list[JudgedRow]
) -> None:
    assert len(judged) == len(rows) == 290
    wrong = [(r, j.verdict, j.rules) for r, j in zip(rows, judged) if r["verdict"] != j.verdict]
    assert not wrong


def test_a_verdict_other_than_legal_names_its_rules(judged: list[JudgedRow]) -> None:
    for row in judged:
        assert bool(row.rules) == (row.verdict != "legal")
        assert row.message or not row.rules


def test_answers_of_the_table_are_ignored(rows: list[dict[str, str]]) -> None:
    turned = [{**row, "verdict": "nonsense", "rules": "x", "message": "y"} for row in rows[:20]]
    assert [x.answer() for x in judge_rows(turned)] == [x.answer() for x in judge_rows(rows[:20])]


@pytest.fixture
def row(rows: list[dict[str, str]]) -> dict[str, str]:
    return dict(rows[0])


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("tp", "abc", "tp must be a whole number of at most 12 digits, but got `abc`"),
        ("tp", "1e9", "whole number"),
        ("first", "²", "whole number"),
        ("world", "0", "world must be between 1"),
        ("seq_len", "-5", "seq_len must be between 1"),
        ("sequence_parallel", "maybe", "must be 0 or 1"),
        ("model", "no-such-model", "no model named"),
        ("model", "", "names no model"),
    ],
)
def test_a_row_that_cannot_be_read_says_why(
    row: dict[str, str], column: str, value: str, says: str
) -> None:
    bad, good = judge_rows([{**row, column: value}, row])
    assert bad.verdict == "" and says in bad.message
    assert good.verdict == "legal"


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"first": "0"}, "pp.counts_positive"),
        ({"tp": "0"}, "grid.positive"),
        ({"cp": "-2"}, "grid.positive"),
        ({"vpp": "0"}, "grid.positive"),
        ({"dispatcher": "teleport"}, "dispatcher.known"),
        ({"recompute_granularity": "half"}, "recompute.known"),
        ({"pp": "999999999999"}, "grid.world_divides"),
    ],
)
def test_absurd_values_are_illegal(row: dict[str, str], changes: dict[str, str], rule: str) -> None:
    (judged,) = judge_rows([{**row, **changes}])
    assert judged.verdict == "illegal" and rule in judged.rules


def test_a_rule_without_its_inputs_is_not_judged() -> None:
    bare = {"model": "glm-4.5", "tp": "4", "pp": "4", "ep": "8"}
    (judged,) = judge_rows([bare])
    assert judged.verdict == "legal"
    (judged,) = judge_rows([{**bare, "world": "24"}])
    assert judged.rules == ("grid.world_divides", "grid.expert_world_divides")
    (judged,) = judge_rows([{**bare, "sequence_parallel": "0"}])
    assert judged.rules == ("sp.experts_need_it",)


def test_numbers_as_spreadsheets_write_them(row: dict[str, str]) -> None:
    (judged,) = judge_rows([{**row, "tp": "1.0", "last": "11.0", "sequence_parallel": "0.0"}])
    assert judged.rules == ("pp.middle_divides",)


def test_rows_keep_their_order_and_only_inputs_are_copied(rows: list[dict[str, str]]) -> None:
    answers: Iterator[dict[str, str]] = (x.answer() for x in judge_rows(rows))
    for before, after in zip(rows, answers):
        assert after["model"] == before["model"] and after["world"] == before["world"]
        assert list(after)[-3:] == ["verdict", "rules", "message"]
        assert "raised_at" not in after and "layers_built" not in after


def test_a_risky_layout_stays_legal_with_a_note(row: dict[str, str]) -> None:
    (judged,) = judge_rows([{**row, "ep": "1", "etp": "2", "dispatcher": "alltoall"}])
    assert judged.verdict == "legal" and judged.rules == ()
    assert "accepted, but" in judged.message
