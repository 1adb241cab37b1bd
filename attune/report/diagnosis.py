"""The verdict on logs as a person reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attune.report.plain import plain
from attune.report.words import brief, gib, say, say_marked
from attune.trial.result import Outcome

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """How a run ended, as its logs tell it."""

    outcome: Outcome
    log_class: str | None
    """Class of the deciding line; None for a clean run."""
    rank: int | None
    phase: str | None
    step: int | None
    """Last step that was logged, from 0; None where none was."""
    steps_asked: int | None
    """Steps of a whole run, as the caller gave them."""
    requested_gib: float | None
    evidence: str
    """The deciding line, shortened."""
    advice: str
    files: int
    """Logs that were read."""
    megabytes: float

    def as_data(self) -> dict[str, Any]:
        """For scripts; the class goes by its plain name."""
        named = {
            "class" if key == "log_class" else key: value for key, value in plain(self).items()
        }
        return named

    @property
    def failed(self) -> bool:
        """Whether something went wrong."""
        return self.outcome != "completed"


def draw_diagnosis(diagnosis: Diagnosis, console: Console) -> None:
    """Verdict first, then the evidence and what to do."""
    colour = "red" if diagnosis.failed else "green"
    kind = f" ({diagnosis.log_class})" if diagnosis.log_class else ""
    last = "no step" if diagnosis.step is None else f"last step {diagnosis.step}"
    say_marked(console, f"[{colour}]{diagnosis.outcome}[/]{kind}, {last}")
    if diagnosis.evidence:
        say(console, f"why: {brief(diagnosis.evidence)}")
    if where := _where(diagnosis):
        say(console, f"where: {where}")
    if diagnosis.advice:
        say(console, f"advice: {diagnosis.advice}")
    say(console, f"read {diagnosis.files} logs, {diagnosis.megabytes:.1f} MB")


def _where(diagnosis: Diagnosis) -> str:
    words = [f"rank {diagnosis.rank}"] if diagnosis.rank is not None else []
    words += [diagnosis.phase] if diagnosis.phase else []
    if diagnosis.requested_gib is not None:
        words.append(f"{gib(diagnosis.requested_gib)} GiB asked for")
    return ", ".join(words)
