"""What a finished campaign says beside its winner: memory headroom, and a larger cluster."""

from __future__ import annotations

from collections.abc import Sequence

from attune.catalog import Cluster, parse
from attune.counts import tokens_per_s_per_gpu
from attune.experiment import Inputs
from attune.experiment.events import Completed, Finished
from attune.report.objectives import FrontPoint, Projection
from attune.search.front import memory_front
from attune.search.projection import project
from attune.workload import Workload


def find_front(inputs: Inputs, runs: Sequence[Finished]) -> tuple[FrontPoint, ...]:
    """Layouts that none beats in both throughput and memory, the fastest first."""
    return tuple(
        FrontPoint(
            run=run.run,
            layout=run.layout,
            tokens_per_s_per_gpu=run.tokens_per_s_per_gpu or 0.0,
            peak_gib=run.peak_gib or 0.0,
            headroom=1 - (run.peak_gib or 0.0) / inputs.cluster.gpu.memory_gib,
            provenance=run.provenance,
        )
        for run in memory_front(runs)
    )


def find_projection(
    inputs: Inputs, runs: Sequence[Finished], done: Completed | None
) -> Projection | None:
    """The winner on the count that the campaign was asked to project to; None without one."""
    won = next((run for run in runs if done and run.run == done.winner_run), None)
    if inputs.project is None or won is None:
        return None
    cluster, workload = _large(inputs, inputs.project)
    there = project(
        inputs.model,
        (inputs.cluster, inputs.workload),
        (cluster, workload),
        won,
        [run for run in runs if run is not won],
    )
    return Projection(
        layout=won.layout,
        measured_on=inputs.cluster.count,
        count=there.count,
        step_s=there.step_s,
        low_s=there.low_s,
        high_s=there.high_s,
        tokens_per_s_per_gpu=tokens_per_s_per_gpu(there.step_s, workload, there.count),
        peak_gib=there.peak_gib,
        limit_gib=cluster.gpu.memory_gib,
        p_fits=there.p_fits,
        problem=there.problem,
    )


def _large(inputs: Inputs, count: int) -> tuple[Cluster, Workload]:
    """Cluster and workload that the campaign's stand for."""
    fields = {"gpu": inputs.cluster.gpu, "count": count}
    rows = inputs.workload.global_batch * count // inputs.cluster.count
    workload = inputs.workload.model_copy(update={"global_batch": rows})
    return parse(Cluster, fields, "--project"), workload
