"""How each framework logs what a played run does."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from attune.errors import AttuneError
from attune.trial.job import Job
from attune.trial.result import RankMemory, Step
from attune.trial.worker.log import (
    WorkerError,
    write_echo,
    write_error,
    write_memory,
    write_phase,
    write_step,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """Why a played rank stops."""

    rank: int
    stage: int
    phase: str
    step: int | None
    kind: str
    """out_of_memory, diverged, illegal_layout or exception."""
    message: str
    requested_gib: float | None = None


class Voice(Protocol):
    """Writes lines as one framework does."""

    def begin(self, rank: int, after_s: float) -> str:
        """Training starts."""

    def step(self, step: Step, steps: int) -> str: ...

    def memory(self, memory: RankMemory) -> str: ...

    def failure(self, failure: Failure) -> str: ...

    def echo(self, rank: int, message: str) -> str:
        """A rank stops because a peer did."""


class WorkerVoice:
    """attune's own worker."""

    def begin(self, rank: int, after_s: float) -> str:
        return write_phase(rank, "forward", after_s)

    def step(self, step: Step, steps: int) -> str:
        return write_step(step, steps, 0.0)

    def memory(self, memory: RankMemory) -> str:
        return write_memory(memory)

    def failure(self, failure: Failure) -> str:
        requested = failure.requested_gib
        return write_error(
            WorkerError(
                rank=failure.rank,
                stage=failure.stage,
                phase=failure.phase,
                step=failure.step,
                kind=failure.kind,
                requested_bytes=None if requested is None else round(requested * 2**30),
                message=failure.message,
            )
        )

    def echo(self, rank: int, message: str) -> str:
        return write_echo(rank, message)


_VOICES = {
    "megatron-lm": "voices_megatron:MegatronVoice",
    "megatron-bridge": "voices_megatron:BridgeVoice",
    "miles": "voices_ray:MilesVoice",
    "slime": "voices_ray:SlimeVoice",
    "command": "voices_pattern:PatternVoice",
}
"""Module and class of the voices that need the job."""


def load_voice(job: Job) -> Voice:
    """The voice of the job's framework.

    Raises:
        AttuneError: the stand-in cannot play it.
    """
    if job.framework == "megatron-core":
        return WorkerVoice()
    if job.framework not in _VOICES:
        raise AttuneError(
            f"no stand-in plays framework `{job.framework}`; there are: megatron-core, "
            f"{', '.join(_VOICES)}"
        )
    module, _, kind = _VOICES[job.framework].partition(":")
    voice: Voice = getattr(import_module(f"attune.trial.stand_in.{module}"), kind)(job)
    return voice
