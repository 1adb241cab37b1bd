"""A calibration as a person reads it: each multiplier before and after the measured runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attune.report.words import grid, say

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True, slots=True)
class Multiplier:
    """A factor of the estimates; the ends hold 80 % of the belief."""

    name: str
    prior: float
    prior_low: float
    prior_high: float
    posterior: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibrationReport:
    """What measured runs on one kind of node taught about one framework."""

    gpu: str
    per_node: int
    node_gb_per_s: float
    network_gb_per_s: float
    framework: str
    trials: int
    """Measured runs and probes that it learnt from."""
    updated: str
    """When it last learnt, UTC."""
    file: Path
    cells: int
    """Points of the search space whose layer times were probed."""
    multipliers: tuple[Multiplier, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Learnt:
    """What a run taught; without a file nothing was learnt."""

    file: Path | None = None
    trials: int = 0
    """Runs that the calibration has learnt from, this one included."""
    problem: str = ""
    """Why it could not be saved."""

    @property
    def words(self) -> str:
        """One line for a person; empty where there is nothing to say."""
        if self.problem:
            return f"not learnt from: {self.problem}"
        if self.file is None:
            return ""
        runs = "1 run" if self.trials == 1 else f"{self.trials} runs"
        return f"calibration: learnt from {runs} ({self.file})"


NOTHING_LEARNT = Learnt()


def draw_calibrations(found: tuple[CalibrationReport, ...], console: Console) -> None:
    """A table of the multipliers for each cluster and framework."""
    if not found:
        say(console, "no calibration is saved; measured trials and probes make one")
    for report in found:
        _draw(report, console)


def _draw(report: CalibrationReport, console: Console) -> None:
    runs = "1 measured run" if report.trials == 1 else f"{report.trials} measured runs"
    say(
        console,
        f"{report.gpu}, {report.per_node} to a node, {report.node_gb_per_s:g} GB/s inside and "
        f"{report.network_gb_per_s:g} GB/s across nodes, {report.framework}: {runs}, the last "
        f"learnt on {report.updated} UTC",
    )
    table = grid(["multiplier", "prior", "80 %", "posterior", "80 %"])
    for one in report.multipliers:
        table.add_row(
            one.name,
            f"{one.prior:.2f}",
            f"{one.prior_low:.2f} to {one.prior_high:.2f}",
            f"{one.posterior:.2f}",
            f"{one.low:.2f} to {one.high:.2f}",
        )
    console.print(table)
    if report.cells:
        points = "1 layout" if report.cells == 1 else f"{report.cells} layouts"
        say(console, f"layer times measured by probes: {points}")
    say(console, f"file: {report.file}")
