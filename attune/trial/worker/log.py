"""The worker's log: how each line is written, and how it is read back.

One line an event, `attune <event> | name value | ...`. A probe adds what its rank holds, or the
time of each kind of layer. Steps come from the first tensor- and
data-parallel rank of the last pipeline stage; memory from every rank, once, at the end or at the
error; an error from every rank that failed by itself. A rank that only lost its peer says
`attune echo`, which decides nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from attune.trial.result import HeldMemory, LayerPass, RankMemory, Step

ErrorKind = Literal["out_of_memory", "diverged", "illegal_layout", "exception"]
Phase = Literal["start", "build", "forward", "backward", "optimizer", "end"]

_NUMBER = r"[-+]?(?:[\d.]+(?:e[-+]?\d+)?|nan|inf)"
_LONGEST = 2000

STEP = re.compile(
    r"attune step \| step (?P<step>\d+) of (?P<steps>\d+) \| "
    rf"seconds (?P<seconds>{_NUMBER}) \| loss (?P<loss>{_NUMBER}) \| "
    rf"grad_norm (?P<grad_norm>{_NUMBER}) \| learning_rate (?P<learning_rate>{_NUMBER})"
)
MEMORY = re.compile(
    r"attune memory \| rank (?P<rank>\d+) \| stage (?P<stage>\d+) \| "
    rf"allocated_gib (?P<allocated_gib>{_NUMBER}) \| "
    rf"reserved_gib (?P<reserved_gib>{_NUMBER}) \| host_gib (?P<host_gib>{_NUMBER})"
)
HELD = re.compile(
    r"attune held \| rank (?P<rank>\d+) \| stage (?P<stage>\d+) \| part (?P<part>\w+) \| "
    rf"gib (?P<gib>{_NUMBER})"
)
LAYER = re.compile(
    rf"attune layer \| kind (?P<kind>\w+) \| forward_s (?P<forward_s>{_NUMBER}) \| "
    rf"backward_s (?P<backward_s>{_NUMBER}) \| spread_percent (?P<spread_percent>{_NUMBER})"
)
ERROR = re.compile(
    r"attune error \| rank (?P<rank>\d+) \| stage (?P<stage>\d+) \| phase (?P<phase>\w+) \| "
    r"step (?P<step>\d+|none) \| kind (?P<kind>\w+) \| "
    r"requested_bytes (?P<requested_bytes>\d+|unknown) \| message (?P<message>.*)"
)
PHASE = re.compile(
    r"attune phase \| rank (?P<rank>\d+) \| phase (?P<phase>\w+) \| after_s (?P<after_s>[\d.]+)"
)
ECHO = re.compile(r"attune echo \| rank (?P<rank>\d+) \| message (?P<message>.*)")


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerError:
    """Why one rank stopped."""

    rank: int
    stage: int
    phase: str
    """start, build, forward, backward, optimizer or end."""
    step: int | None
    """Step (from 0) in which it stopped; None before the first."""
    kind: str
    """out_of_memory, diverged, illegal_layout or exception."""
    requested_bytes: int | None
    """What the allocator was asked for; None where it does not say."""
    message: str


def write_step(step: Step, steps: int, learning_rate: float) -> str:
    """The line of one optimizer step."""
    return (
        f"attune step | step {step.step} of {steps} | seconds {step.seconds:.6f} | "
        f"loss {step.loss:.9g} | grad_norm {step.grad_norm:.9g} | learning_rate {learning_rate:.9g}"
    )


def read_step(line: str) -> Step | None:
    """The step that `line` reports, or None."""
    match = STEP.search(line)
    if match is None:
        return None
    return Step(
        step=int(match["step"]),
        seconds=float(match["seconds"]),
        loss=float(match["loss"]),
        grad_norm=float(match["grad_norm"]),
    )


def write_memory(memory: RankMemory) -> str:
    """The line of one rank's peak memory."""
    return (
        f"attune memory | rank {memory.rank} | stage {memory.stage} | "
        f"allocated_gib {memory.allocated_gib:.6f} | reserved_gib {memory.reserved_gib:.6f} | "
        f"host_gib {memory.host_gib:.6f}"
    )


def read_memory(line: str) -> RankMemory | None:
    """The rank's peak memory that `line` reports, or None."""
    match = MEMORY.search(line)
    if match is None:
        return None
    return RankMemory.model_validate(match.groupdict())


def write_held(held: HeldMemory) -> str:
    """The line of what a probed rank holds of one part."""
    return (
        f"attune held | rank {held.rank} | stage {held.stage} | part {held.part} | "
        f"gib {held.gib:.6f}"
    )


def read_held(line: str) -> HeldMemory | None:
    """What a probed rank holds of one part, as `line` reports, or None."""
    match = HELD.search(line)
    return None if match is None else HeldMemory.model_validate(match.groupdict())


def write_layer(layer: LayerPass) -> str:
    """The line of one kind of layer that was timed."""
    return (
        f"attune layer | kind {layer.kind} | forward_s {layer.forward_s:.9g} | "
        f"backward_s {layer.backward_s:.9g} | spread_percent {layer.spread_percent:.3f}"
    )


def read_layer(line: str) -> LayerPass | None:
    """The timed layer that `line` reports, or None."""
    match = LAYER.search(line)
    return None if match is None else LayerPass.model_validate(match.groupdict())


def write_error(error: WorkerError) -> str:
    """The line of one rank's error; line breaks of the message become spaces."""
    step = "none" if error.step is None else error.step
    requested = "unknown" if error.requested_bytes is None else error.requested_bytes
    return (
        f"attune error | rank {error.rank} | stage {error.stage} | phase {error.phase} | "
        f"step {step} | kind {error.kind} | requested_bytes {requested} | "
        f"message {_one_line(error.message)}"
    )


def read_error(line: str) -> WorkerError | None:
    """The error that `line` reports, or None."""
    match = ERROR.search(line)
    if match is None:
        return None
    requested = match["requested_bytes"]
    return WorkerError(
        rank=int(match["rank"]),
        stage=int(match["stage"]),
        phase=match["phase"],
        step=None if match["step"] == "none" else int(match["step"]),
        kind=match["kind"],
        requested_bytes=None if requested == "unknown" else int(requested),
        message=match["message"],
    )


def write_phase(rank: int, phase: Phase, after_s: float) -> str:
    """The line that says what a rank is doing, and how long after its start."""
    return f"attune phase | rank {rank} | phase {phase} | after_s {after_s:.2f}"


def write_echo(rank: int, message: str) -> str:
    """The line of a rank that stopped only because a peer did."""
    return f"attune echo | rank {rank} | message {_one_line(message)}"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST]
