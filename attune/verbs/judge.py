"""Judges a table of layouts, row by row, against the rules."""

from __future__ import annotations

from pathlib import Path

from attune.report.judged import JudgedTable


def judge_table(table: Path, output: Path, *, parameters: bool = False) -> JudgedTable:
    """Writes the inputs of `table` with verdict, rules and message of every row.

    Args:
        table: CSV with one layout a row; answer columns in it are ignored.
        output: where the judged CSV goes.
        parameters: also count the parameters of each row's rank.

    Raises:
        AttuneError: no such file, an unknown model, or a value that is no number.
    """
    raise NotImplementedError
