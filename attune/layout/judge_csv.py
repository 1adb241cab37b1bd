"""Judges a table of layouts given as rows of text, as they stand in a CSV file.

An empty cell is a flag that was not given to Megatron, so it takes Megatron's default (ETP is TP,
the dispatcher is allgather). A rule whose inputs are absent is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np

from attune.catalog import Model, load_model
from attune.errors import AttuneError
from attune.layout.layout import Layout
from attune.layout.rules import RULES, Rule, Setting, check, explain
from attune.layout.table import LayoutTable
from attune.layout.text_row import INPUTS, Reading, UnreadableError, read_row
from attune.workload import Workload

ANSWERS = ("verdict", "rules", "message")
_FRAMEWORK = "megatron-lm"
"""The framework that a table's flags are given to."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedRow:
    """One row with its answer."""

    inputs: dict[str, str]
    """The input columns, as they came."""
    verdict: str
    """legal, illegal, silently_wrong; empty where the row cannot be judged."""
    rules: tuple[str, ...]
    """Ids of the broken rules that make the verdict."""
    message: str
    setting: Setting | None = None
    layout: Layout | None = None
    """With `setting`, what was judged; None where the row could not be read."""

    def answer(self) -> dict[str, str]:
        """Columns of the output: the inputs, then the answers."""
        answers = (self.verdict, ";".join(self.rules), self.message)
        return {**self.inputs, **dict(zip(ANSWERS, answers, strict=True))}


def judge_rows(
    rows: Iterable[Mapping[str, str | None]], load: Callable[[str], Model] = load_model
) -> list[JudgedRow]:
    """The verdict of Megatron (megatron-core 0.16) on every row, in order.

    Columns other than `INPUTS` are ignored and not copied. A row that cannot be read (unknown
    model, malformed number) gets an empty verdict and says why; nothing is raised for it.
    """
    load = lru_cache(maxsize=None)(load)
    judged: dict[int, JudgedRow] = {}
    groups: dict[tuple[object, ...], list[tuple[int, dict[str, str], Reading]]] = {}
    for index, row in enumerate(rows):
        inputs = {name: (row[name] or "").strip() for name in INPUTS if name in row}
        try:
            reading = read_row(inputs)
            groups.setdefault(reading.group, []).append((index, inputs, reading))
        except UnreadableError as error:
            judged[index] = _refused(inputs, str(error), error.rule)
    for members in groups.values():
        judged |= _judge_group(members, load)
    return [judged[index] for index in sorted(judged)]


def _refused(inputs: dict[str, str], message: str, rule: str | None = None) -> JudgedRow:
    if rule:
        return JudgedRow(inputs=inputs, verdict="illegal", rules=(rule,), message=message)
    return JudgedRow(inputs=inputs, verdict="", rules=(), message=f"not judged: {message}")


def _judge_group(
    members: list[tuple[int, dict[str, str], Reading]], load: Callable[[str], Model]
) -> dict[int, JudgedRow]:
    """Rows of one model, judged as one table."""
    readings = [reading for _, _, reading in members]
    try:
        model = load(readings[0].model)
    except AttuneError as error:
        return {index: _refused(inputs, str(error)) for index, inputs, _ in members}
    table = LayoutTable.of([reading.layout for reading in readings])
    judgement = check(_together(model, readings), table, readings[0].absent)
    broken: list[list[Rule]] = [[] for _ in members]
    for place, rule in np.argwhere(judgement.broken.T).tolist():
        broken[place].append(RULES[rule])
    return {
        index: _answer(_alone(model, reading), reading.layout, rules, inputs)
        for (index, inputs, reading), rules in zip(members, broken, strict=True)
    }


def _alone(model: Model, reading: Reading) -> Setting:
    workload = Workload.model_construct(
        row_tokens=reading.row_tokens, global_batch=reading.global_batch
    )
    return Setting(model=model, count=reading.world, workload=workload, framework=_FRAMEWORK)


def _together(model: Model, readings: list[Reading]) -> Setting:
    """One setting for rows of several sizes: [n] arrays stand in place of the three numbers, which
    the conditions of rules only calculate with."""
    world, tokens, batch = np.array(
        [(x.world, x.row_tokens, x.global_batch) for x in readings], dtype=np.int64
    ).T
    workload = Workload.model_construct(row_tokens=tokens, global_batch=batch)
    return Setting(model=model, count=cast(int, world), workload=workload, framework=_FRAMEWORK)


def _answer(
    setting: Setting, layout: Layout, broken: list[Rule], inputs: dict[str, str]
) -> JudgedRow:
    wrong = [rule for rule in broken if rule.verdict != "risky"]
    verdict = "legal"
    if wrong:
        verdict = "silently_wrong" if all(rule.silent for rule in wrong) else "illegal"
    words = [_words(rule, setting, layout) for rule in broken]
    return JudgedRow(
        inputs=inputs,
        verdict=verdict,
        rules=tuple(rule.id for rule in wrong),
        message="; ".join(words),
        setting=setting,
        layout=layout,
    )


def _words(rule: Rule, setting: Setting, layout: Layout) -> str:
    broken = explain(rule, setting, layout)
    note = "accepted, but " if rule.verdict == "risky" else ""
    return f"{note}{broken.message}" + (f" ({broken.cure})" if broken.cure else "")
