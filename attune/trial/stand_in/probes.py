"""What a played probe logs: memory of one rank, or times of single layers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from attune.catalog import Cluster
from attune.layout import LayoutTable
from attune.trial.job import Job
from attune.trial.probe import LayerProbe, MemoryProbe
from attune.trial.result import LayerPass, RankMemory, Step
from attune.trial.stand_in.faults import out_of_memory
from attune.trial.stand_in.part import Line, OutOfMemory
from attune.trial.stand_in.voices import Voice
from attune.trial.worker.log import write_layer
from attune.virtual import VirtualCluster

_START_UP_S = 60.0
"""Wall time before a probe measures: start of one process, imports, building (a choice)."""
_PASSES = 12
"""Passes of each kind of layer, warm-up included."""


def play_probe(job: Job, probe: MemoryProbe | LayerProbe, voice: Voice) -> Iterator[Line]:
    """The lines of a probe; all stand in the log of the job's first process."""
    yield Line(rank=0, text=voice.begin(0, _START_UP_S), after_s=_START_UP_S)
    if isinstance(probe, MemoryProbe):
        yield from _memory(job, probe, voice)
    else:
        yield from _layers(job, probe)


def _memory(job: Job, probe: MemoryProbe, voice: Voice) -> Iterator[Line]:
    cluster = Cluster(gpu=job.cluster.gpu, count=probe.world)
    whole = _virtual(job, cluster)
    performance = whole.play(job.layout, job.run)
    stage = probe.rank // (probe.world // job.layout.pp)
    allocated, reserved = performance.allocated_gib[stage], performance.reserved_gib[stage]
    truth = whole.truth(LayoutTable.of([job.layout]))
    failure = performance.out_of_memory
    if failure is not None and truth.peak_gib[0, stage] > cluster.gpu.memory_gib:
        yield from _fails(job, probe, stage, failure, allocated, voice)
        return
    # Another stage may have ended the run; this rank has no peers.
    seconds = float(truth.step_s[0])
    for index in range(probe.steps):
        step = Step(step=index, seconds=seconds, loss=math.nan, grad_norm=math.nan)
        yield Line(rank=0, text=voice.step(step, probe.steps), after_s=seconds)
    memory = RankMemory(
        rank=probe.rank, stage=stage, allocated_gib=allocated, reserved_gib=reserved
    )
    yield Line(rank=0, text=voice.memory(memory))
    yield Line(rank=0, text="", exit_code=0)


def _fails(
    job: Job, probe: MemoryProbe, stage: int, where: OutOfMemory, used_gib: float, voice: Voice
) -> Iterator[Line]:
    """The first failure of the run, met by the rank that is played; it has no peers."""
    here = replace(where, rank=probe.rank, stage=stage)  # type: ignore[type-var]
    for line in out_of_memory(job, here, used_gib, voice):
        if line.rank == probe.rank:
            yield replace(line, rank=0)


def _layers(job: Job, probe: LayerProbe) -> Iterator[Line]:
    passes = _virtual(job, job.cluster).layer_passes(job.layout)
    for kind in probe.kinds:
        forward_s, backward_s = passes[kind]
        layer = LayerPass(kind=kind, forward_s=forward_s, backward_s=backward_s, spread_percent=0.0)
        spent_s = _PASSES * probe.layers * layer.seconds
        yield Line(rank=0, text=write_layer(layer), after_s=spent_s)
    yield Line(rank=0, text="", exit_code=0)


def _virtual(job: Job, cluster: Cluster) -> VirtualCluster:
    """The job's virtual cluster, in its size for the whole layout."""
    virtual = job.virtual
    return VirtualCluster(job.model, cluster, job.workload, kind=virtual.kind, seed=virtual.seed)
