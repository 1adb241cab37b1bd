"""What a played run logs, and when: one script over all ranks, in order of time."""

from __future__ import annotations

from collections.abc import Iterator

from attune.trial.job import Job
from attune.trial.result import RankMemory, Step
from attune.trial.stand_in.faults import out_of_memory, play_fault, reject
from attune.trial.stand_in.part import Fault, Line, Performance
from attune.trial.stand_in.voices import Voice

_START_UP_S = 252.0
_START_UP_PER_GPU_S = 4.125
"""Wall time outside the steps, from two published runs: 17.9 min less 20 x 14.5 s on 128 H200
(780 s), 45.8 min less 37.2 min on 64 B200 (516 s); a line through both."""
_START_UP_COUNT = 128
"""Largest count that the line was drawn from; beyond it nothing is known, and it stays level."""


def start_up_s(count: int) -> float:
    """Wall time of a run outside its steps, seconds."""
    return _START_UP_S + _START_UP_PER_GPU_S * min(count, _START_UP_COUNT)


def play(job: Job, performance: Performance, voice: Voice, fault: Fault | None) -> Iterator[Line]:
    """The lines of a run: one rank of each stage speaks, and the ranks that fail."""
    if fault is not None and fault.name == "illegal":
        yield from refuse(job, voice, fault.message)
        return
    speaker = _first_rank(job, job.layout.pp - 1)
    start = start_up_s(job.cluster.count)
    yield Line(rank=speaker, text=voice.begin(speaker, start), after_s=start)
    yield from _steps(job, performance, voice, fault)
    if fault is not None:
        yield from play_fault(job, performance, voice, fault)
    elif (where := performance.out_of_memory) is not None:
        yield from out_of_memory(job, where, performance.allocated_gib[where.stage], voice)
    else:
        yield from _ending(job, performance, voice)


def refuse(job: Job, voice: Voice, message: str) -> Iterator[Line]:
    """The lines of a run whose layout the framework rejects."""
    start = start_up_s(job.cluster.count)
    yield Line(rank=0, text=voice.begin(0, start), after_s=start)
    yield from reject(job, voice, message)


def _steps(job: Job, performance: Performance, voice: Voice, fault: Fault | None) -> Iterator[Line]:
    speaker = _first_rank(job, job.layout.pp - 1)
    figures = zip(performance.step_times_s, performance.losses, performance.grad_norms)
    for index, (seconds, loss, grad_norm) in enumerate(figures):
        if fault is not None and index >= fault.step:
            return
        step = Step(step=index, seconds=seconds, loss=loss, grad_norm=grad_norm)
        yield Line(rank=speaker, text=voice.step(step, job.workload.steps), after_s=seconds)


def _ending(job: Job, performance: Performance, voice: Voice) -> Iterator[Line]:
    stages = zip(performance.allocated_gib, performance.reserved_gib)
    for stage, (allocated, reserved) in enumerate(stages):
        rank = _first_rank(job, stage)
        memory = RankMemory(
            rank=rank, stage=stage, allocated_gib=float(allocated), reserved_gib=float(reserved)
        )
        yield Line(rank=rank, text=voice.memory(memory))
    yield Line(rank=0, text="", exit_code=0)


def _first_rank(job: Job, stage: int) -> int:
    """Megatron numbers ranks tensor first and pipeline last."""
    return stage * (job.cluster.count // job.layout.pp)
