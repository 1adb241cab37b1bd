"""What a verification found, as a person reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from attune.report.words import say
from attune.verify import Verification

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """Checks of two arms, or of one layout's components."""

    what: str
    """What was compared, in words."""
    verification: Verification
    verdict: str = ""
    """What follows from it."""

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return not self.verification.failed


def draw_checked(checked: Checked, console: Console) -> None:
    """Every check with its status and the reason for it."""
    say(console, checked.what)
    width = max((len(check.name) for check in checked.verification.checks), default=0)
    for check in checked.verification.checks:
        say(console, f"  {check.name:<{width}}  {check.status:<7}  {check.detail}")
    for line in (checked.verification.note, checked.verdict):
        if line:
            say(console, line)
