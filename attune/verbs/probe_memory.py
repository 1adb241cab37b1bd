"""Measures the memory of single ranks of a layout, each alone on one GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from attune.catalog import Cluster
from attune.errors import AttuneError
from attune.estimate import (
    NO_CALIBRATION,
    Calibration,
    MemoryEstimate,
    Observation,
    estimate_memory,
    observe_peak,
)
from attune.experiment import load_calibration
from attune.layout import Layout, LayoutTable, write_layout
from attune.report.calibration import NOTHING_LEARNT, Learnt
from attune.report.probe import MemoryProbed, PredictedMemory, ProbedRank
from attune.rows.feed import name_rows
from attune.trial.job import Job, Virtual
from attune.trial.launchers import load_launcher
from attune.trial.probe import PROBING, MemoryProbe
from attune.trial.result import TrialResult
from attune.trial.runner import run
from attune.verbs.calibration import learn_observations
from attune.verbs.target import Target
from attune.verbs.trial import ChosenLauncher, free_directory, refuse_illegal

_COMMUNICATORS = "communicators and their buffers; the device's use adds the predicted ones"
_ROUTING = "routing: tokens go to all experts in turn, and a rank of busy experts needs more"
_HOST = "the device's allocator: on cpu the host's resident memory stands for it"


def one_gpu(target: Target) -> Target:
    """The target on a single GPU of its cluster: where a memory probe runs."""
    return replace(target, cluster=Cluster(gpu=target.cluster.gpu, count=1))


def probe_memory(
    target: Target,
    layout: Layout,
    *,
    rank: str = "worst",
    launcher: ChosenLauncher,
    directory: Path | None = None,
    virtual: Virtual | None = None,
    limit_s: float = 900.0,
    calibration: Path | None = None,
    watch: Callable[[ProbedRank], None] | None = None,
) -> MemoryProbed:
    """Runs one rank of the layout, or one of every stage, alone for two steps.

    Args:
        target: model, the whole cluster, and workload.
        layout: the layout of the whole cluster; it must be legal.
        rank: `worst` is the first of the stage that is predicted to need most, `all-stages` the
            first of every stage; else a rank's number.
        launcher: what starts each, on one GPU.
        directory: where the files go; None takes the next free one.
        virtual: the virtual cluster of a simulated probe.
        limit_s: wall time of one rank after which it is stopped as `timed_out`.
        calibration: file of what measured runs taught; None is the one in the user's cache.
        watch: sees each rank as it ends.

    Raises:
        LayoutError: a rule is broken, or the worker cannot build the model or layout.
        AttuneError: no such rank, or the probe cannot start.
    """
    refuse_illegal(target, layout)
    known = _known(target, launcher, calibration)
    memory = _estimated(target, layout, known)
    ranks = chosen_ranks(rank, layout, target.cluster.count, int(memory.stage[0]))
    place = free_directory("probes", directory)
    workload = name_rows(target.workload, target.model.vocabulary, real=not launcher.simulated)
    asked = replace(one_gpu(target), workload=workload)
    probed = []
    for number in ranks:
        job = _job(asked, layout, target.cluster.count, number, limit_s, virtual)
        result = run(job, load_launcher(launcher.name, launcher.options), place / f"rank-{number}")
        probed.append(_probed(result, number, layout, memory, target, place / f"rank-{number}"))
        if watch is not None:
            watch(probed[-1])
    return MemoryProbed(
        model=target.model.name,
        gpu=target.cluster.gpu.name,
        count=target.cluster.count,
        layout=write_layout(layout),
        limit_gib=target.cluster.gpu.memory_gib,
        ranks=tuple(probed),
        stages=layout.pp,
        worst_stage=int(memory.stage[0]),
        not_run=_not_run(target),
        launcher=launcher.name,
        launcher_reason=launcher.reason,
        directory=place,
        learnt=_learn(target, layout, probed, calibration),
    )


def chosen_ranks(rank: str, layout: Layout, count: int, worst_stage: int) -> tuple[int, ...]:
    """The ranks that `rank` means; the first rank of a stage stands for its others.

    Raises:
        AttuneError: none of `worst`, `all-stages` and the ranks of the layout.
    """
    per_stage = count // layout.pp
    if rank == "worst":
        return (worst_stage * per_stage,)
    if rank == "all-stages":
        return tuple(stage * per_stage for stage in range(layout.pp))
    if not (rank.isascii() and rank.isdigit() and int(rank) < count):
        raise AttuneError(
            f"rank must be worst, all-stages or 0 to {count - 1}, but got {rank[:40]!r}"
        )
    return (int(rank),)


def _known(target: Target, launcher: ChosenLauncher, file: Path | None) -> Calibration:
    if launcher.simulated:
        return NO_CALIBRATION
    return load_calibration(target.cluster, PROBING, file)


def _estimated(target: Target, layout: Layout, calibration: Calibration) -> MemoryEstimate:
    """The prediction for what the probe runs: balanced routing."""
    workload = target.workload.model_copy(update={"routing": "balanced"})
    table = LayoutTable.of([layout])
    return estimate_memory(target.model, target.cluster, workload, table, calibration)


def _job(
    asked: Target,
    layout: Layout,
    world: int,
    rank: int,
    limit_s: float,
    virtual: Virtual | None,
) -> Job:
    return Job(
        model=asked.model,
        cluster=asked.cluster,
        workload=asked.workload,
        layout=layout,
        framework=PROBING,
        limit_s=limit_s,
        virtual=virtual or Virtual(),
        probe=MemoryProbe(world=world, rank=rank),
    )


def _probed(
    result: TrialResult,
    rank: int,
    layout: Layout,
    memory: MemoryEstimate,
    target: Target,
    directory: Path,
) -> ProbedRank:
    stage = rank // (target.cluster.count // layout.pp)
    return ProbedRank(
        rank=rank,
        stage=stage,
        result=result,
        predicted=PredictedMemory(
            parts={name: float(values[0, stage]) for name, values in memory.parts.items()},
            allocated_gib=float(memory.allocated[0, stage]),
            reserved_gib=float(memory.reserved[0, stage]),
            device_gib=float(memory.device[0, stage]),
        ),
        directory=directory,
    )


def _not_run(target: Target) -> tuple[str, ...]:
    told = [_COMMUNICATORS]
    if target.model.experts is not None:
        told.append(_ROUTING)
    if target.cluster.gpu.architecture == "cpu":
        told.append(_HOST)
    return tuple(told)


def _learn(target: Target, layout: Layout, probed: list[ProbedRank], file: Path | None) -> Learnt:
    """Has the calibration learn the peaks that a device's allocator measured.

    On cpu a process without peers holds less than one that talks to them.
    """
    peaks = {
        one.stage: one.reserved_gib
        for one in probed
        if one.result.provenance == "measured" and not one.on_host and one.reserved_gib
    }
    if not peaks:
        return NOTHING_LEARNT

    def seen(calibration: Calibration) -> list[Observation]:
        reserved = _estimated(target, layout, calibration).reserved[0]
        return [observe_peak(float(reserved[stage]), gib) for stage, gib in peaks.items()]

    return learn_observations(target, seen, framework=PROBING, file=file, runs=len(peaks))
