"""Probes as a person reads them: measured beside predicted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attune.report.calibration import NOTHING_LEARNT, Learnt
from attune.report.plain import plain
from attune.report.trial import draw_failure
from attune.report.words import (
    ABSENT,
    badge,
    escaped,
    gib,
    grid,
    percent,
    say,
    say_marked,
    say_whole,
)
from attune.trial.result import HeldPart, TrialResult

if TYPE_CHECKING:
    from rich.console import Console

_STATES: tuple[HeldPart, ...] = ("weights", "gradients", "optimizer")


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictedMemory:
    """What the estimator says of one rank, GiB."""

    parts: dict[str, float]
    allocated_gib: float
    reserved_gib: float
    device_gib: float

    @property
    def states_gib(self) -> float:
        """Weights, gradients and optimizer."""
        return sum(self.parts[name] for name in _STATES)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbedRank:
    """One rank that ran alone."""

    rank: int
    stage: int
    result: TrialResult
    predicted: PredictedMemory
    directory: Path

    @property
    def completed(self) -> bool:
        """Whether both steps ran."""
        return self.result.outcome == "completed"

    @property
    def allocated_gib(self) -> float | None:
        """Peak of the allocator; None unless both steps ran."""
        return self._peak("allocated_gib")

    @property
    def reserved_gib(self) -> float | None:
        """Peak that the allocator held; None unless both steps ran."""
        return self._peak("reserved_gib")

    @property
    def device_gib(self) -> float | None:
        """The measured peak with what the estimator puts outside the allocator."""
        if self.reserved_gib is None:
            return None
        return self.reserved_gib + self.predicted.device_gib - self.predicted.reserved_gib

    @property
    def on_host(self) -> bool:
        """Whether the host's memory stands for the device's: its peak is the whole process's."""
        return self.result.hardware == "cpu"

    def held_gib(self, part: HeldPart) -> float | None:
        """The tensors of that part."""
        return next((one.gib for one in self.result.held if one.part == part), None)

    def _peak(self, field: str) -> float | None:
        found = [one for one in self.result.ranks if one.rank == self.rank]
        return float(getattr(found[0], field)) if found and self.completed else None


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryProbed:
    """What a memory probe found."""

    model: str
    gpu: str
    count: int
    """GPUs of the layout; the probe took one."""
    layout: str
    limit_gib: float
    ranks: tuple[ProbedRank, ...]
    stages: int
    worst_stage: int
    """The stage that is predicted to need most."""
    not_run: tuple[str, ...]
    """What the probe does not measure."""
    launcher: str
    launcher_reason: str
    directory: Path
    learnt: Learnt = NOTHING_LEARNT

    @property
    def completed(self) -> bool:
        """Whether every rank ran its steps."""
        return all(rank.completed for rank in self.ranks)

    @property
    def fits(self) -> bool | None:
        """Whether what was probed fits the device; None where that was not measured."""
        if any(rank.result.outcome == "out_of_memory" for rank in self.ranks):
            return False
        needs = [rank.device_gib for rank in self.ranks]
        known = [need for need in needs if need is not None]
        if len(known) < len(needs):
            return None
        return max(known) <= self.limit_gib


def memory_probe_data(found: MemoryProbed) -> dict[str, Any]:
    """What `--json` prints: the probe with what follows from it."""
    ranks = [
        {
            **plain(rank),
            "allocated_gib": rank.allocated_gib,
            "reserved_gib": rank.reserved_gib,
            "device_gib": rank.device_gib,
        }
        for rank in found.ranks
    ]
    return {**plain(found), "fits": found.fits, "ranks": ranks}


def draw_memory_probe(found: MemoryProbed, console: Console) -> None:
    """Verdict first, then each rank, measured beside predicted by part."""
    provenance = found.ranks[0].result.provenance
    say(console, f"{found.model} on {found.count} {found.gpu}, one rank at a time on one GPU")
    say_whole(console, found.layout)
    if found.launcher == "simulated":
        say(
            console,
            f"SIMULATED ({found.launcher_reason}): a virtual cluster answered; no figure is "
            "measured",
        )
    colour, words = _verdict(found)
    say_marked(console, f"[{colour}]{escaped(words)}[/], {badge(provenance)}")
    for rank in found.ranks:
        _draw_rank(rank, console)
    say(console, "\nnot measured:")
    for line in found.not_run:
        say(console, f"  {line}")
    if found.learnt.words:
        say(console, found.learnt.words)
    say(console, f"directory: {found.directory}")


def _verdict(found: MemoryProbed) -> tuple[str, str]:
    probed = sorted({rank.stage for rank in found.ranks})
    where = "every stage" if len(probed) == found.stages else f"stage {probed[0]}"
    if found.fits is None:
        outcomes = {rank.result.outcome for rank in found.ranks} - {"completed"}
        return "red", f"unknown: {', '.join(sorted(outcomes))}"
    if not found.fits:
        return "red", "does not fit"
    needs = max(rank.device_gib or 0.0 for rank in found.ranks)
    told = f"{where} fits: {gib(needs)} of {gib(found.limit_gib)} GiB"
    if len(probed) < found.stages and found.worst_stage not in probed:
        told += f"; stage {found.worst_stage} is predicted to need most"
    return "green", told


def _draw_rank(rank: ProbedRank, console: Console) -> None:
    if not rank.completed:
        say(console, f"\nrank {rank.rank}, stage {rank.stage}: {rank.result.outcome}")
        draw_failure(rank.result, console)
        say(console, f"predicted: {gib(rank.predicted.allocated_gib)} GiB allocated at the peak")
        return
    kind = "measured" if rank.result.provenance == "measured" else "simulated"
    table = grid([f"rank {rank.rank}, stage {rank.stage}, GiB", kind, "predicted", "off by"])
    for name, measured, predicted in _figures(rank):
        off = None if not measured or not predicted else predicted / measured - 1
        table.add_row(name, gib(measured), gib(predicted), _signed(off))
    console.print(table)


def _figures(rank: ProbedRank) -> list[tuple[str, float | None, float]]:
    predicted = rank.predicted
    held = [rank.held_gib(part) for part in _STATES]
    rest = None
    known = [size for size in held if size is not None]
    if rank.allocated_gib is not None and len(known) == len(held) and not rank.on_host:
        rest = rank.allocated_gib - sum(known)
    return [
        *((part, size, predicted.parts[part]) for part, size in zip(_STATES, held)),
        ("activations and buffers", rest, predicted.allocated_gib - predicted.states_gib),
        ("peak allocated", rank.allocated_gib, predicted.allocated_gib),
        ("peak reserved", rank.reserved_gib, predicted.reserved_gib),
    ]


def _signed(share: float | None) -> str:
    if share is None:
        return ABSENT
    return ("+" if share >= 0 else "") + percent(share)
