"""Predictions for cases, a table at a time, in the units of each case's metric."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attune.catalog import Cluster, Gpu, Model
from attune.estimate import NO_CALIBRATION, Stack, estimate_memory, estimate_step_time
from attune.estimate.fits import probability
from attune.layout import LayoutTable
from attune.layout.table import Floats
from attune.workload import Workload
from benchmarks.cases import TIME, Case

UNSTATED_SIGMA = 0.12
"""Log deviation of a peak for each group of arguments that the source leaves out (their defaults
and recipes differ by 20 to 30 % in total)."""
EIGHTY_PERCENT = 1.2816
Terms = Mapping[str, float]
"""Efficiency terms of the time model that replace those of the catalogue's GPU."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What is predicted for one case, in the units of its metric."""

    value: float
    """For an outcome P(fits)."""
    sigma: float
    """Deviation of its log."""
    parts: dict[str, float]
    """GiB of the stage, or seconds."""
    headroom: float = 0.0
    """For a peak or an outcome: log of the memory of the GPU over the predicted peak."""


def predict(cases: Sequence[Case], terms: Sequence[Terms] | None = None) -> list[Prediction]:
    """One prediction for each case; `terms` are those of each case."""
    found: dict[int, Prediction] = {}
    for indices in _alike(cases, terms):
        some = [cases[i] for i in indices]
        own = terms[indices[0]] if terms else {}
        time = some[0].metric in TIME
        predictions = _times(some, own) if time else _memories(some)
        found.update(zip(indices, predictions))
    return [found[i] for i in range(len(cases))]


def _alike(cases: Sequence[Case], terms: Sequence[Terms] | None) -> list[list[int]]:
    """Indices of cases that one table can hold."""
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for index, case in enumerate(cases):
        own = tuple(sorted(terms[index].items())) if terms else ()
        key = (
            case.metric in TIME,
            case.model.id,
            case.model.vocabulary,
            case.cluster.gpu.id,
            case.cluster.count,
            case.cluster.per_node,
            case.workload.model_dump_json(),
            case.stack,
            own,
        )
        groups[key].append(index)
    return list(groups.values())


def with_terms(cluster: Cluster, terms: Terms) -> Cluster:
    """The cluster with its GPU's efficiency terms replaced."""
    if not terms:
        return cluster
    gpu: Gpu = cluster.gpu.model_copy(update={"efficiency": {**cluster.gpu.efficiency, **terms}})
    return cluster.model_copy(update={"gpu": gpu})


def _times(cases: list[Case], terms: Terms) -> list[Prediction]:
    one = cases[0]
    estimate = estimate_step_time(
        one.model,
        with_terms(one.cluster, terms),
        one.workload,
        LayoutTable.of([case.layout for case in cases]),
        NO_CALIBRATION,
        one.stack,
    )
    seconds = estimate.total
    return [
        Prediction(
            value=of_seconds(case, float(seconds[i])),
            sigma=float(estimate.sigma[i]),
            parts={name: float(values[i]) for name, values in estimate.parts.items()},
        )
        for i, case in enumerate(cases)
    ]


def of_seconds(case: Case, seconds: float) -> float:
    """A step time in the units of the case's metric, or such a value in seconds."""
    if case.metric == "step_time_s":
        return seconds
    count = case.cluster.count
    if case.metric == "tokens_per_s_per_gpu":
        return case.workload.tokens_per_step / count / seconds
    return published_flops(case.model, case.workload, case.stack, case.row["framework"]) / (
        count * 1e12 * seconds
    )


def published_flops(model: Model, workload: Workload, stack: Stack, framework: str) -> float:
    """FLOPs of a step as the source counts them.

    Megatron-Bridge counts router-free GEMMs, half the attention square and prediction layers;
    BigScience counts the hardware's work, so recompute too (a factor of 4/3).
    """
    tokens = float(workload.tokens_per_step)
    hidden, mtp = model.hidden, stack.mtp_layers
    layers = model.layers + mtp
    dense = model.first_moe_layer if model.experts else layers
    units = 3 if model.gated else 2
    latent = model.latent
    if latent:
        query = model.heads * (latent.nope_dim + latent.rope_dim)
        rank = latent.q_rank
        linear = rank * (hidden + query + 1) if rank else hidden * query
        up = model.heads * (latent.nope_dim + latent.value_dim)
        linear += latent.kv_rank * (hidden + up + 1) + hidden * latent.rope_dim
        linear += model.heads * latent.value_dim * hidden
        core = 3 * model.heads * (latent.nope_dim + latent.rope_dim + latent.value_dim)
    else:
        width = model.heads * model.head_dim
        linear = hidden * (width + 2 * model.query_groups * model.head_dim) + width * hidden
        core = 6 * width
    weights = units * hidden * model.ffn * dense + linear * layers
    if model.experts:
        experts = model.experts.top_k * model.experts.ffn + model.experts.shared_ffn
        weights += units * hidden * experts * (layers - dense)
    weights += hidden * model.vocabulary * (1 + mtp) + mtp * (3 * hidden + 2 * hidden**2)
    if "bigscience" in framework:
        return tokens * (6 * weights + 2 * core * layers * workload.row_tokens) * 4 / 3
    return tokens * (6 * weights + core * layers * workload.row_tokens)


def _memories(cases: list[Case]) -> list[Prediction]:
    one = cases[0]
    estimate = estimate_memory(
        one.model,
        one.cluster,
        one.workload,
        LayoutTable.of([case.layout for case in cases]),
        NO_CALIBRATION,
        one.stack,
    )
    kinds = {
        "peak_allocated_gib": estimate.allocated,
        "peak_reserved_gib": estimate.reserved,
        "peak_device_gib": estimate.device,
    }
    predictions = []
    for i, case in enumerate(cases):
        values: Floats = kinds.get(case.metric, estimate.device)[i]
        stage = _stage(case, values)
        sigma = (float(estimate.sigma[i]) ** 2 + len(case.unstated) * UNSTATED_SIGMA**2) ** 0.5
        chance = probability(estimate.limit_gib, values[stage : stage + 1], np.array([sigma]))
        predictions.append(
            Prediction(
                value=float(chance[0]) if case.metric == "outcome" else float(values[stage]),
                sigma=sigma,
                parts={name: float(part[i, stage]) for name, part in estimate.parts.items()},
                headroom=float(np.log(estimate.limit_gib / max(values[stage], 1e-9))),
            )
        )
    return predictions


def _stage(case: Case, values: Floats) -> int:
    """The stage of the case's rank; the worst where the row is a maximum over ranks."""
    rank = case.row["rank"]
    if not rank:
        return int(values.argmax())
    if rank == "last":
        return case.layout.pp - 1
    return int(float(rank)) * case.layout.pp // case.cluster.count


def log_errors(cases: Sequence[Case], predictions: Sequence[Prediction]) -> Floats:
    """Log of predicted over measured step time (or memory); throughputs are turned round."""
    signs = np.array([-1.0 if c.metric in TIME[1:] else 1.0 for c in cases])
    # An outcome is no size and has no error.
    sizes = [c.metric != "outcome" for c in cases]
    ratios = [p.value / c.value if size else 1.0 for c, p, size in zip(cases, predictions, sizes)]
    errors: Floats = signs * np.log(np.array(ratios))
    return errors
