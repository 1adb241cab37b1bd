"""Peak memory of every stage, by part, with an interval and the chance to fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attune.catalog import Cluster, Model
from attune.counts import stage_parameters
from attune.counts.parameters import last_stage
from attune.estimate.activations import layer_bytes
from attune.estimate.calibration import NO_CALIBRATION, Calibration
from attune.estimate.chunks import padded, schedule_chunks
from attune.estimate.columns import Columns, columns_of
from attune.estimate.ends import end_bytes, trained_parameters, with_mtp
from attune.estimate.fits import RESIDUALS, ROUTING_SIGMA, STATED_SIGMA, probability
from attune.estimate.in_flight import in_flight
from attune.estimate.novelty import novelty
from attune.estimate.stack import Stack, stack_of
from attune.estimate.states import Stages, States, states
from attune.estimate.transient import transient_bytes
from attune.layout import LayoutTable, StageSplits, stage_splits
from attune.layout.table import DISPATCHERS, Bools, Floats, Ints
from attune.workload import Workload

GIB = 2.0**30
PARTS = ("weights", "gradients", "optimizer", "activations", "transient", "workspace")


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryEstimate:
    """Predicted peaks; arrays are [n, P] over stages, 0 where a row has no such stage."""

    parts: dict[str, Floats]
    """GiB by part, at the moment of the allocator's peak; they add up to `allocated`."""
    reserved: Floats
    """GiB that the allocator holds."""
    device: Floats
    """GiB in use as the driver sees it: reserved, CUDA context, communicators."""
    host_gib: Floats
    """[n] host memory of one node."""
    limit_gib: float
    """Memory of one GPU."""
    sigma: Floats
    """[n] deviation of the log of the peak."""

    @property
    def allocated(self) -> Floats:
        """Peak of the allocator, GiB: the sum of the parts."""
        total: Floats = np.sum([self.parts[name] for name in PARTS], axis=0)
        return total

    @property
    def stage(self) -> Ints:
        """[n] stage with the highest peak."""
        worst: Ints = self.device.argmax(axis=1)
        return worst

    @property
    def peak_gib(self) -> Floats:
        """[n] device use of the worst stage."""
        peak: Floats = self.device.max(axis=1)
        return peak

    @property
    def p_fits(self) -> Floats:
        """[n] probability that the worst stage fits."""
        return probability(self.limit_gib, self.peak_gib, self.sigma)

    def interval(self, share: float = 0.8) -> tuple[Floats, Floats]:
        """[n] low and high device use of the worst stage, GiB: within them stands this share of
        the measured peaks (at most 0.85)."""
        outside = (1 - share) / 2
        low, high = RESIDUALS.quantile(outside), RESIDUALS.quantile(1 - outside)
        return self.peak_gib * np.exp(low * self.sigma), self.peak_gib * np.exp(high * self.sigma)


def estimate_memory(
    model: Model,
    cluster: Cluster,
    workload: Workload,
    table: LayoutTable,
    calibration: Calibration = NO_CALIBRATION,
    framework: str | Stack = "megatron-core",
) -> MemoryEstimate:
    """Peak memory of every row and stage.

    On `cpu`, device use is the resident peak above the baseline of the process.

    Raises:
        AttuneError: no such framework.
    """
    stack = stack_of(framework, cluster.gpu.architecture)
    width = max(int(table.pp.max(initial=1)), 1)
    parts = {name: np.zeros((len(table), width)) for name in PARTS}
    host = np.zeros(len(table))
    for rows, part in schedule_chunks(table):
        columns = columns_of(model, cluster, workload, part)
        found, host[rows] = _chunk(columns, stack, calibration)
        for name in PARTS:
            parts[name][rows] = padded(found[name], width)
    exists = np.arange(width)[None, :] < np.maximum(table.pp, 1)[:, None]
    reserved = _reserved(model, stack, table, parts)
    return MemoryEstimate(
        parts=parts,
        reserved=reserved,
        device=np.where(exists, reserved + _outside(stack, cluster, table)[:, None], 0.0),
        host_gib=host,
        limit_gib=cluster.gpu.memory_gib,
        sigma=np.hypot(
            _sigma(model, workload, table, calibration),
            novelty(model, cluster, workload, table, _name(framework)),
        ),
    )


def _name(framework: str | Stack) -> str:
    return framework if isinstance(framework, str) else "stated"


def _chunk(
    columns: Columns, stack: Stack, calibration: Calibration
) -> tuple[dict[str, Floats], Floats]:
    """Parts in GiB [n, P] and host GiB per node [n] of rows with one schedule."""
    model, table = columns.model, columns.table
    splits = stage_splits(model, table)
    stages = _stages(model, splits)
    counts = stage_parameters(model, table, splits)
    held = states(columns, stack, trained_parameters(columns, stack, counts, stages.last), stages)
    alive = with_mtp(columns, stack, in_flight(model, columns, splits, stack.microbatch_group))
    layers = layer_bytes(columns, stack)
    kept = alive.dense * layers.dense[:, None] + alive.moe * layers.moe[:, None]
    kept = kept + alive.checkpoints * layers.checkpoint[:, None]
    kept = kept + end_bytes(columns, stack, alive, layers)
    moment = transient_bytes(columns, stack, layers, alive, stages.last)
    parts = _at_peak(held, stack.heap * kept, stack.heap * moment, stages.exists)
    factor = calibration.multiplier("memory") / GIB
    return {name: value * factor for name, value in parts.items()}, _host(columns, stack, held)


def _stages(model: Model, splits: StageSplits) -> Stages:
    place = splits.split
    return Stages(
        exists=splits.exists[place],
        dense=(splits.dense_layers(model).sum(axis=2) > 0)[place],
        moe=(splits.moe_layers(model).sum(axis=2) > 0)[place],
        last=last_stage(splits)[place],
    )


def _at_peak(held: States, kept: Floats, moment: Floats, exists: Bools) -> dict[str, Floats]:
    """Parts at whichever is higher: the microbatches or the optimizer's step."""
    stepping = held.step > kept + moment
    parts = {
        "weights": held.weights,
        "gradients": held.gradients,
        "optimizer": held.optimizer,
        "activations": np.where(stepping, 0.0, kept),
        "transient": np.where(stepping, held.step, moment),
        "workspace": held.workspace,
    }
    return {name: np.where(exists, value, 0.0) for name, value in parts.items()}


def _host(columns: Columns, stack: Stack, held: States) -> Floats:
    """Host GiB of the node whose ranks hold the most."""
    ranks = columns.cluster.per_node
    base = ranks * stack.host_process_gib
    host: Floats = base + ranks * held.host.max(axis=1) / GIB
    return host


def _reserved(model: Model, stack: Stack, table: LayoutTable, parts: dict[str, Floats]) -> Floats:
    usual = stack.reserved_moe if model.experts else stack.reserved_dense
    ratio: Floats = usual + np.where(table.vpp > 1, stack.reserved_interleaved, 0.0)[:, None]
    bucket = np.minimum(stack.bucket_gib, 2 * parts["weights"])
    reserved: Floats = np.sum([parts[name] for name in PARTS], axis=0) * ratio + bucket
    return reserved


def _outside(stack: Stack, cluster: Cluster, table: LayoutTable) -> Floats:
    """Device GiB beside the allocator: CUDA context, communicators, the flex dispatcher's buffers.

    NCCL keeps buffers per channel and peer: a ring or tree has few peers, all-to-all has every
    rank of the expert group.
    """
    dense, experts = table.dp(cluster.count) * table.cp, table.edp(cluster.count)
    degrees = (table.tp, table.cp, table.pp, dense, table.ep * table.etp, experts)
    groups = np.sum([degree > 1 for degree in degrees], axis=0)
    peers = np.maximum(table.ep * table.etp - 1, 0)
    flex = (table.dispatcher == DISPATCHERS.index("flex")) & (table.ep > 1)
    outside: Floats = stack.context_gib + stack.communicator_gib * groups
    outside = outside + stack.peer_gib * peers + np.where(flex, stack.flex_gib, 0.0)
    return outside


def _sigma(
    model: Model, workload: Workload, table: LayoutTable, calibration: Calibration
) -> Floats:
    natural = bool(model.experts) and workload.routing == "natural"
    routing = np.where(natural & (table.ep > 1), ROUTING_SIGMA, 0.0)
    sigma: Floats = np.sqrt(STATED_SIGMA**2 + routing**2 + calibration.memory_sigma**2)
    return sigma
