"""What this rank is doing, and the lines that it writes."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from attune.trial.result import HeldMemory, HeldPart, LayerPass, RankMemory, Step
from attune.trial.worker import failure, log
from attune.trial.worker.log import Phase


class Progress:
    """Knows phase and step of a rank, and writes its log lines, each in one piece."""

    def __init__(
        self, *, rank: int, steps: int, steps_file: str | None, quiet: bool = False
    ) -> None:
        self.rank = rank
        self.stage = 0
        self.writes_steps = False
        self.speaks = rank == 0
        """Whether this rank logs its phases."""
        self.phase: Phase = "start"
        self.step: int | None = None
        self._steps = steps
        self._quiet = quiet
        self._steps_file = Path(steps_file) if steps_file else None
        self._started = time.monotonic()

    def enter(self, phase: Phase, step: int | None = None) -> None:
        """Notes a new phase; those outside a step are logged by rank 0."""
        self.phase, self.step = phase, step
        if step is None and self.speaks and not self._quiet:
            _write(log.write_phase(self.rank, phase, time.monotonic() - self._started))

    def log_step(self, step: Step, learning_rate: float) -> None:
        """Writes the step on the one rank that writes steps."""
        if self.writes_steps:
            self.write_step(step, learning_rate)

    def write_step(self, step: Step, learning_rate: float) -> None:
        """Writes the step's line and its JSON line."""
        if not self._quiet:
            _write(log.write_step(step, self._steps, learning_rate))
        if self._steps_file:
            with self._steps_file.open("a", encoding="utf-8") as file:
                file.write(step.model_dump_json() + "\n")

    def log_memory(self, memory: RankMemory) -> None:
        """Writes the rank's peak memory."""
        _write(log.write_memory(memory))

    def log_held(self, sizes: Mapping[HeldPart, int]) -> None:
        """Writes what this rank holds between its steps, bytes by part."""
        for part, size in sizes.items():
            held = HeldMemory(rank=self.rank, stage=self.stage, part=part, gib=size / 2**30)
            _write(log.write_held(held))

    def log_layer(self, layer: LayerPass) -> None:
        """Writes the time of one kind of layer."""
        _write(log.write_layer(layer))

    def log_failure(self, error: BaseException) -> None:
        """Writes the error line of this rank, or that it only echoes a peer."""
        if failure.is_echo(error):
            _write(log.write_echo(self.rank, failure.describe(error)))
            return
        _write(
            log.write_error(
                log.WorkerError(
                    rank=self.rank,
                    stage=self.stage,
                    phase=failure.phase_of(error, self.phase),
                    step=self.step,
                    kind=failure.kind_of(error, self.phase),
                    requested_bytes=failure.requested_bytes(error),
                    message=failure.describe(error),
                )
            )
        )


def _write(line: str) -> None:
    # One system call, so that lines of several ranks in one pipe do not mix.
    os.write(1, (line + "\n").encode())
