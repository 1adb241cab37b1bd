"""Random legal jobs of a framework, of dense and expert models, with every knob that it has."""

from __future__ import annotations

from functools import cache

import numpy as np

from attune.catalog import load_cluster, load_model
from attune.layout import LayoutTable
from attune.layout.rules import Setting, check
from attune.layout.space import Space, enumerate_layouts
from attune.trial.job import Job
from attune.trial.setup import Setup
from attune.workload import Workload

_WORKLOAD = Workload(row_tokens=4096, global_batch=128)
_OVERLAPS = [False, True]


@cache
def _layouts(model: str, framework: str, version: str | None) -> LayoutTable:
    """Legal layouts of a wide space, thinned so that each dimension still varies."""
    experts = load_model(model).experts is not None
    space = Space(
        name="wide",
        tp=(1, 2, 8),
        pp=(1, 2, 4, 8),
        vpp=(1, 2),
        cp=(1, 2),
        ep=(1, 8) if experts else (1,),
        etp=(1, "tp") if experts else (1,),
        stages=("even", "auto"),
        rows_per_microbatch=(1, 2),
        recompute=("none", "core_attn,mlp", "full", "full method=block recompute_layers=2"),
        optimizer_offload=(0.0, 0.5),
        dispatcher=("alltoall", "allgather", "flex") if experts else ("alltoall",),
        overlap_shared_experts=_OVERLAPS,
        overlap_experts=_OVERLAPS if experts else (False,),
        overlap_gradients=_OVERLAPS,
        overlap_parameters=_OVERLAPS,
        overlap_tensor=_OVERLAPS,
        cuda_graphs=_OVERLAPS,
        delayed_weight_gradients=(False,),
    )
    architecture = load_model(model)
    table = enumerate_layouts(space, architecture, 64).table
    random = np.random.default_rng(7)
    table = table.take(random.permutation(len(table))[:60_000])
    setting = Setting.of(
        architecture, load_cluster("h100", 64), _WORKLOAD, framework, framework_version=version
    )
    return table.take(check(setting, table).legal)


def random_jobs(
    framework: str, count: int, *, model: str = "qwen3-30b-a3b", version: str | None = None
) -> list[Job]:
    """So many jobs, the same at each call."""
    table = _layouts(model, framework, version)
    random = np.random.default_rng(11)
    return [
        Job(
            model=load_model(model),
            cluster=load_cluster("h100", 64),
            workload=_WORKLOAD,
            layout=table.row(int(row)),
            framework=framework,
            setup=Setup(version=version),
        )
        for row in random.permutation(len(table))[:count]
    ]
