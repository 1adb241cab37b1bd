"""What works on a machine, as a person reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attune.report.words import escaped, say_marked

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One part of attune or of the machine."""

    name: str
    works: bool
    found: str
    """Its version, or why it does not work."""
    advice: str = ""
    """What to do; empty where it works."""


def draw_findings(findings: Sequence[Finding], console: Console) -> None:
    """A line for each part, and one of advice below those that do not work."""
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        mark = "[green]yes[/]" if finding.works else "[yellow]no [/]"
        say_marked(console, f"{mark} {finding.name:<{width}}  {escaped(finding.found)}")
        if finding.advice:
            say_marked(console, f"    {'':<{width}}  {escaped(finding.advice)}")
