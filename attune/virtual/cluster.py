"""A virtual cluster: the truth that simulated trials obey."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from attune.catalog import Cluster, Model
from attune.errors import AttuneError
from attune.layout import Layout, LayoutTable, StageSplits, stage_splits, write_layout
from attune.layout.table import Floats
from attune.virtual.draws import factors, generator
from attune.virtual.failure import describe, find_failure
from attune.virtual.hidden import draw_hidden
from attune.virtual.imbalance import busiest
from attune.virtual.interactions import AMPLITUDE, interaction
from attune.virtual.kernels import Kernels
from attune.virtual.losses import grad_norms, losses
from attune.virtual.memory import Memory, stage_memory
from attune.virtual.network import Network
from attune.virtual.performance import OutOfMemory, Performance, Truth
from attune.virtual.setting import Setting
from attune.virtual.sizes import Sizes
from attune.virtual.stage_time import layer_passes
from attune.virtual.step_time import step_time
from attune.workload import Workload


@dataclass(frozen=True)
class VirtualCluster:
    """A cluster that exists in numbers only; equal arguments give an equal cluster.

    Raises:
        AttuneError: a kind other than near, far, adversarial.
    """

    model: Model
    cluster: Cluster
    workload: Workload
    kind: str = "near"
    """near: ordinary efficiencies; far: terms up to twice off; adversarial: near, with hidden
    interactions that a prior cannot know."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in AMPLITUDE:
            raise AttuneError(
                f"a virtual cluster is one of {', '.join(AMPLITUDE)}, but got `{self.kind}`"
            )

    def truth(self, table: LayoutTable) -> Truth:
        """Noise-free step time and device peak of every row of `table`."""
        step_s = np.zeros(len(table))
        peak_gib = np.zeros((len(table), int(table.pp.max(initial=1))))
        for rows in _alike(table):
            part = table.take(rows)
            splits = stage_splits(self.model, part)
            setting = self.setting(part)
            step_s[rows] = self._step(setting, splits, whole=False)
            device = stage_memory(setting, splits).device
            peak_gib[rows, : device.shape[1]] = device
        fits = peak_gib.max(axis=1, initial=0.0) <= self.cluster.gpu.memory_gib
        return Truth(step_s=step_s, peak_gib=peak_gib, fits=fits)

    def play(self, layout: Layout, run: int = 0) -> Performance:
        """One run of `layout`, with noise that depends on the layout's text and `run`."""
        text = write_layout(layout)
        table = LayoutTable.of([layout])
        splits, setting = stage_splits(self.model, table), self.setting(table)
        random = generator("run", self.kind, self.seed, text, run)
        memory = _shaken(stage_memory(setting, splits), random)
        failure = find_failure(memory, self.cluster.gpu.memory_gib)
        done = self.workload.steps if failure is None else min(failure.steps, self.workload.steps)
        step = float(self._step(setting, splits, whole=True)[0])
        times = self._times(step, setting, random)[:done]
        trouble: OutOfMemory | None = None
        if failure is not None:
            trouble = describe(failure, memory, int(setting.sizes.stage_ranks[0]), random)
        limit = self.cluster.gpu.memory_gib - memory.outside[0]
        return Performance(
            step_times_s=tuple(times.tolist()),
            losses=losses(self.model, self.workload, text)[:done],
            grad_norms=grad_norms(self.model, self.workload, text)[:done],
            allocated_gib=tuple(np.minimum(memory.allocated[0], 0.97 * limit).tolist()),
            reserved_gib=tuple(np.minimum(memory.reserved[0], 0.995 * limit).tolist()),
            out_of_memory=trouble,
        )

    def layer_passes(self, layout: Layout) -> dict[str, tuple[float, float]]:
        """Seconds forward and backward of one layer of each kind, and of the head, without noise.

        Keys: `dense`, `head`, and `moe` of a model with experts.
        """
        setting = self.setting(LayoutTable.of([layout]))
        return {
            kind: (float(forward[0]), float(backward[0]))
            for kind, (forward, backward) in layer_passes(setting).items()
        }

    def setting(self, table: LayoutTable) -> Setting:
        """What the parts of a step of `table`'s rows depend on, hidden terms included."""
        hidden = draw_hidden(self.kind, self.seed)
        sizes = Sizes.of(self.model, self.cluster, self.workload, table)
        name = (self.kind, self.seed)
        return Setting(
            model=self.model,
            workload=self.workload,
            table=table,
            sizes=sizes,
            hidden=hidden,
            kernels=Kernels(gpu=self.cluster.gpu, hidden=hidden, workload=self.workload),
            network=Network(cluster=self.cluster, hidden=hidden),
            busiest=busiest(self.model, self.workload, hidden, sizes),
            kernel_choice=factors(hidden.cell, [sizes.tp, sizes.tokens], "kernel", *name),
            link_choice=factors(
                hidden.link_cell,
                [sizes.ep, sizes.etp, table.dispatcher.astype(np.float64)],
                "link",
                *name,
            ),
        )

    def _step(self, setting: Setting, splits: StageSplits, whole: bool) -> Floats:
        seconds = step_time(setting, splits, (self.kind, self.seed), whole)
        experts = self.model.experts is not None
        actual: Floats = seconds * interaction(setting.table, self.kind, self.seed, experts)
        return actual

    def _times(self, step_s: float, setting: Setting, random: np.random.Generator) -> Floats:
        """Step times of a run: slow first steps, then noise, now and then a hiccup."""
        hidden, steps = setting.hidden, self.workload.steps
        level = step_s * float(np.exp(hidden.run_noise * random.normal()))
        noise = np.exp(hidden.step_noise * np.clip(random.normal(size=steps), -2.5, 2.5))
        slow = np.ones(steps)
        slow[:2] = (float(random.uniform(1.6, 3.0)), float(random.uniform(1.02, 1.12)))
        times: Floats = level * noise * slow
        return times


def _alike(table: LayoutTable) -> list[np.ndarray[tuple[int, ...], np.dtype[np.int64]]]:
    """Indices of the rows that share PP and VPP, group by group."""
    keys = np.stack([table.pp, table.vpp], axis=1)
    _, inverse = np.unique(keys, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    return [np.flatnonzero(inverse == group) for group in range(int(inverse.max(initial=-1)) + 1)]


def _shaken(memory: Memory, random: np.random.Generator) -> Memory:
    """The memory of one run: what is in flight varies by half a percent between runs."""
    factor = 1 + 0.005 * float(np.clip(random.normal(), -2, 2))
    return replace(memory, live=memory.live * factor, transient=memory.transient * factor)
