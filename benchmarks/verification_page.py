"""Writes the measured tables of `docs/verification.md`, between its markers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attune.verify import Verification

PAGE = Path(__file__).parents[1] / "docs" / "verification.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def write_tables(
    *,
    planted: Sequence[tuple[Any, Verification]],
    honest: Sequence[tuple[Any, Verification]],
    pairs: dict[str, list[Verification]],
    machine: str,
) -> None:
    """Puts the tables into the page; the prose around them stays."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    tables = "\n".join([*_power(planted), "", *_honest(honest), "", *_alarms(pairs)])
    measured = (
        f"Measured on {machine}, megatron-core on CPU, 20 steps of 8 rows of 64 tokens, two and "
        "four processes, by `python -m benchmarks.verification`."
    )
    PAGE.write_text(f"{before}{BEGIN}\n{measured}\n\n{tables}\n{END}{after}", encoding="utf-8")


def _power(planted: Sequence[tuple[Any, Verification]]) -> list[str]:
    lines = [
        f"### Planted faults: {sum(bool(v.failed) for _, v in planted)} of {len(planted)} found",
        "",
        "| fault | model, layout | found by | share of the loss floor | of the norm floor |",
        "| --- | --- | --- | --- | --- |",
    ]
    for fault, verification in planted:
        found = ", ".join(f"`{name}`" for name in verification.failed) or "**nothing**"
        lines.append(
            f"| `{fault.fault}` | {fault.model}, `{fault.layout}` | {found} | "
            f"{_share(verification, 'layout_bound')} | {_share(verification, 'gradient_norm')} |"
        )
    return lines


def _honest(honest: Sequence[tuple[Any, Verification]]) -> list[str]:
    passed = sum(not verification.failed for _, verification in honest)
    lines = [
        f"### Layouts alone: {passed} of {len(honest)} pass",
        "",
        "| model, layout | processes | verdict | largest relative loss difference at the end |",
        "| --- | --- | --- | --- |",
    ]
    for arm, verification in honest:
        failed = ", ".join(verification.failed)
        last = _value(verification, "layout_bound", "last_difference")
        lines.append(
            f"| {arm.model}, `{arm.layout}` | {arm.processes} | "
            f"{f'failed {failed}' if failed else 'passes'} | {last} |"
        )
    return lines


def _alarms(pairs: dict[str, list[Verification]]) -> list[str]:
    lines = [
        "### False alarms: pairs of honest layouts, each of its own seed, 4 rows a step",
        "",
        "| precision | pairs | false alarms | largest share of the loss floor | of the norm floor "
        "| of the drift floor |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for precision, verdicts in pairs.items():
        alarms = sum(bool(verification.failed) for verification in verdicts)
        shares = [
            max(_number(v, name, key) for v in verdicts)
            for name, key in (
                ("layout_bound", "worst_share"),
                ("gradient_norm", "worst_share"),
                ("drift", "share_of_floor"),
            )
        ]
        cells = " | ".join(f"{share:.2g}" for share in shares)
        lines.append(f"| {precision} | {len(verdicts)} | {alarms} | {cells} |")
    return lines


def _share(verification: Verification, name: str) -> str:
    return _value(verification, name, "worst_share")


def _value(verification: Verification, name: str, key: str) -> str:
    return f"{_number(verification, name, key):.2g}"


def _number(verification: Verification, name: str, key: str) -> float:
    (check,) = (check for check in verification.checks if check.name == name)
    return float(check.values[key])
