"""The two arms of a report, and what the estimator says around the winner."""

from __future__ import annotations

from dataclasses import dataclass

from attune.report.explanation import Explanation
from attune.report.history import History
from attune.trial.result import Provenance, Step


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedulePass:
    """One pass of one microbatch through one chunk of a stage."""

    stage: int
    backward: bool
    start_s: float
    end_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """The pipeline schedule of a step. Provenance: predicted."""

    drawn: tuple[SchedulePass, ...]
    """In order of their start; of fewer microbatches where a step has too many to draw."""
    drawn_microbatches: int
    drawn_of: int
    """Passes of these microbatches; where they are too many, the first ones are drawn."""
    microbatches: int
    """Of one step, on each data-parallel rank."""
    busy_s: tuple[float, ...]
    """Of each stage, in all passes that were replayed."""
    total_s: float
    """From the first pass to the end of the last one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """The winner or the reference: its run, and the estimator's parts of it."""

    name: str
    """`winner` or `reference`."""
    run: int
    provenance: Provenance
    """Of its steps; parts are always predicted."""
    steps: tuple[Step, ...]
    explanation: Explanation
    schedule: Schedule | None = None
    """None without a pipeline."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbour:
    """The winner with one knob changed, as the estimator sees it. Provenance: predicted."""

    change: str
    """`tp=8`."""
    layout: str
    step_s: float
    p_fits: float
    percent: float
    """Step time against the winner's predicted one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExperimentReport:
    """Everything that the pages of one experiment show."""

    experiment: str
    history: History
    arms: tuple[Arm, ...] = ()
    """Winner first; empty before a candidate completed."""
    neighbours: tuple[Neighbour, ...] = ()
    limit_gib: float
    """Device memory of the GPU."""
    float32: bool
    """Whether the layout bound holds for these arms."""
    notes: str = ""
    """Of the recipe."""
    command: str = ""
    environment: str = ""
    versions: tuple[tuple[str, str], ...] = ()
    usd_per_gpu_hour: float = 0.0
    remarks: tuple[str, ...] = ()
    """What is unfinished, damaged or not understood in its files."""
