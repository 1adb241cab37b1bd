"""Judges a table of layouts, row by row, against the rules."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from attune.counts import rank_parameters
from attune.errors import AttuneError
from attune.layout.judge_csv import JudgedRow, judge_rows
from attune.layout.text_row import INPUTS
from attune.report.judged import JudgedTable

_MAXIMUM_BYTES = 100_000_000


def judge_table(table: Path, output: Path, *, parameters: bool = False) -> JudgedTable:
    """Writes the inputs of `table` with verdict, rules and message of every row.

    Args:
        table: CSV with one layout a row; answer columns in it are ignored.
        output: where the judged CSV goes.
        parameters: also count the parameters of each row's `rank`.

    Raises:
        AttuneError: no such file, no CSV, or `output` cannot be written.
    """
    rows = _read(table)
    judged = judge_rows(rows)
    answers = [found.answer() for found in judged]
    if parameters:
        for answer, found, row in zip(answers, judged, rows, strict=True):
            answer |= _parameters(found, row)
    _write(output, answers)
    verdicts = Counter(found.verdict or "not judged" for found in judged)
    return JudgedTable(output=output, rows=len(rows), verdicts=dict(verdicts))


def _read(path: Path) -> list[dict[str, str]]:
    try:
        with path.open("rb") as file:
            content = file.read(_MAXIMUM_BYTES + 1)
        if len(content) > _MAXIMUM_BYTES:
            raise AttuneError(f"{path} is over {_MAXIMUM_BYTES:,} bytes; split the table")
        text = io.StringIO(content.decode("utf-8-sig"), newline="")
        reader = csv.DictReader(text, strict=True)
        _check_header(path, reader.fieldnames or ())
        rows = list(_rows(reader))
    except OSError as error:
        raise AttuneError(f"cannot read {path}: {error.strerror}; check the path") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise AttuneError(f"{path} is not a CSV table: {error}; mend the file") from error
    if not rows:
        raise AttuneError(f"{path} has no row under its header; give at least one layout")
    return rows


def _check_header(path: Path, names: Sequence[str]) -> None:
    """A column given twice would lose one of its two; without a model no row can be judged."""
    twice = next((name for name in INPUTS if names.count(name) > 1), None)
    if twice:
        raise AttuneError(f"{path} has two columns `{twice}`; remove one of them")
    if names and "model" not in names:
        given = ", ".join(names)[:80]
        raise AttuneError(
            f"{path} has no column `model` in its header, but got `{given}`; the columns are "
            f"separated by commas and named {', '.join(INPUTS[:6])}, ..."
        )


def _rows(reader: csv.DictReader[str]) -> Iterator[dict[str, str]]:
    """Rows with every column; a cell that a short row lacks is empty, a surplus cell is refused."""
    for row in reader:
        if None in row:
            raise csv.Error(f"line {reader.line_num} has more cells than the header")
        yield {name: value or "" for name, value in row.items()}


def _parameters(found: JudgedRow, row: Mapping[str, str]) -> dict[str, str]:
    """Columns with the parameters of the row's rank; empty where they cannot be counted."""
    counts = ("", "")
    rank = row.get("rank", "").strip()
    setting, layout = found.setting, found.layout
    if setting and layout and rank.isdecimal() and int(rank) < setting.count:
        found_counts = rank_parameters(setting.model, layout, setting.count, int(rank))
        if found_counts:
            counts = str(found_counts[0]), str(found_counts[1])
    return {"dense_parameters": counts[0], "expert_parameters": counts[1]}


def _write(path: Path, answers: list[dict[str, str]]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(answers[0]))
            writer.writeheader()
            writer.writerows(answers)
    except OSError as error:
        raise AttuneError(f"cannot write {path}: {error.strerror}; give another -o") from error
