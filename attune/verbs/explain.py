"""What attune knows of one layout before it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from attune.estimate import MemoryEstimate, estimate_memory, estimate_step_time
from attune.layout import Layout, LayoutTable, label, parse_layout, stage_splits, write_layout
from attune.layout.rules import Broken, Setting, broken_rules
from attune.report.explanation import BrokenRule, Explanation, Sizes, StageMemory
from attune.verbs.suggest import suggestion
from attune.verbs.target import Target

_MOST_CURES = 12


def explain(
    target: Target, layout: Layout, framework: str = "megatron-core", version: str | None = None
) -> Explanation:
    """Derived sizes, every broken rule with its cure, memory and step time by part.

    The estimates of an illegal layout are those of its cured form.
    """
    setting = Setting.of(target.model, target.cluster, target.workload, framework, version)
    broken = broken_rules(setting, layout)
    legal = cured(setting, layout) if broken else layout
    told = Explanation(
        model=target.model.name,
        gpu=target.cluster.gpu.name,
        count=target.cluster.count,
        workload=target.workload,
        layout=write_layout(layout),
        label=label(layout, target.cluster.count) if _has_grid(layout) else "",
        broken=tuple(map(_broken, broken)),
        sizes=_sizes(target, layout),
    )
    return _estimated(told, target, legal, framework) if legal else told


def _estimated(told: Explanation, target: Target, layout: Layout, framework: str) -> Explanation:
    table = LayoutTable.of([layout])
    about = (target.model, target.cluster, target.workload, table)
    memory = estimate_memory(*about, framework=framework)
    time = estimate_step_time(*about, framework=framework)
    return replace(
        told,
        estimated=write_layout(layout),
        prediction=suggestion(target, table, memory, time, 0),
        memory=_stages(memory, layout.pp),
        host_gib=float(memory.host_gib[0]),
        step_parts={name: float(values[0]) for name, values in time.parts.items()},
    )


def read_layout(text: str) -> Layout:
    """The layout of a line (`tp=4 pp=16`) or of a recipe file.

    Raises:
        AttuneError: an unknown field or value, a missing or damaged file.
    """
    if text.endswith((".yaml", ".yml")) or (("/" in text) and "=" not in text):
        from attune.recipe import layout_of, load_recipe

        return layout_of(load_recipe(Path(text)))
    return parse_layout(text)


def cured(setting: Setting, layout: Layout) -> Layout | None:
    """`layout` with cures applied one by one until it is legal; None where they do not lead there.

    A cure may break another rule, so the number of cures is bounded.
    """
    for _ in range(_MOST_CURES):
        broken = broken_rules(setting, layout)
        if not broken:
            return layout
        following = next((b.cured for b in broken if b.cured is not None), None)
        if following is None or following == layout:
            return None
        layout = following
    return None


def _broken(found: Broken) -> BrokenRule:
    return BrokenRule(
        rule=found.rule.id,
        message=found.message,
        cure=found.cure,
        cured=write_layout(found.cured) if found.cured else None,
        verdict=found.rule.verdict,
    )


def _sizes(target: Target, layout: Layout) -> Sizes | None:
    table, count = LayoutTable.of([layout]), target.cluster.count
    if not _has_grid(layout) or not layout.dp(count):
        return None
    microbatches = int(table.microbatches(count, target.workload.global_batch)[0])
    fill = layout.pp - 1
    steps = layout.vpp * microbatches + fill
    return Sizes(
        dp=layout.dp(count),
        edp=layout.edp(count),
        microbatches=microbatches,
        layers_per_stage=_layers(target, table),
        tokens_per_microbatch_per_gpu=(
            layout.rows_per_microbatch * target.workload.row_tokens // layout.cp
        ),
        # Megatron's interleaved schedule: each of the pp - 1 slots of filling and draining costs
        # 1 / vpp of a microbatch (Narayanan et al., 2021, section 2.2).
        idle_share=fill / steps if microbatches else 1.0,
    )


def _has_grid(layout: Layout) -> bool:
    return min(layout.tp, layout.pp, layout.vpp, layout.cp, layout.ep, layout.etp) > 0


def _layers(target: Target, table: LayoutTable) -> tuple[tuple[int, ...], ...]:
    layers: np.ndarray = stage_splits(target.model, table).layers[0]
    return tuple(tuple(int(x) for x in stage) for stage in layers)


def _stages(memory: MemoryEstimate, pp: int) -> tuple[StageMemory, ...]:
    return tuple(
        StageMemory(
            stage=stage,
            parts={name: float(values[0, stage]) for name, values in memory.parts.items()},
            allocated_gib=float(memory.allocated[0, stage]),
            reserved_gib=float(memory.reserved[0, stage]),
            device_gib=float(memory.device[0, stage]),
        )
        for stage in range(pp)
    )
