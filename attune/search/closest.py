"""Where nothing fits: how far off the closest layout is, and which knob would help."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attune.catalog import Cluster, Model, gpu_names, load_gpu
from attune.estimate import estimate_memory
from attune.layout import Layout, LayoutTable, write_layout
from attune.layout.rules import Setting, check
from attune.layout.table import Floats
from attune.workload import Workload

_MORE_GPUS = (2, 4, 8, 16, 32, 64)


def explain_closest(
    setting: Setting, cluster: Cluster, table: LayoutTable, device_gib: Floats
) -> str:
    """Words on the layout of `table` nearest to fitting.

    Args:
        device_gib: [n] predicted device memory of each row's worst stage.
    """
    limit = cluster.gpu.memory_gib
    index = int(np.argmin(device_gib))
    closest = table.row(index)
    off = device_gib[index] - limit
    words = (
        f"no layout is predicted to fit {_size(limit)} GiB; the closest, "
        f"`{write_layout(closest)}`, needs {_size(device_gib[index])} GiB ({_size(off)} too many). "
    )
    helps = _helping_knobs(setting, cluster, closest) or _helping_changes(setting, cluster, closest)
    if helps:
        return words + "It would fit with " + ", or with ".join(helps)
    return words + "No single change makes it fit: use many more GPUs, or GPUs with more memory"


def _size(gib: float) -> str:
    """GiB with as many digits as tell it from zero: a rank on `cpu` has a few hundredths."""
    return f"{gib:.1f}" if gib >= 10 else f"{gib:.3g}"


def _helping_knobs(setting: Setting, cluster: Cluster, layout: Layout) -> list[str]:
    knobs = _one_knob_changes(layout)
    table = LayoutTable.of(list(knobs.values()))
    memory = estimate_memory(setting.model, cluster, setting.workload, table)
    good = check(setting, table).legal & (memory.p_fits >= 0.5)
    found = [
        f"{name} ({_size(peak)} GiB)" for name, peak, ok in zip(knobs, memory.peak_gib, good) if ok
    ]
    return found[:3]


def _helping_changes(setting: Setting, cluster: Cluster, layout: Layout) -> list[str]:
    """Changes of workload or cluster that make `layout`, or a wider form of it, fit."""
    found = []
    for tokens in (setting.workload.row_tokens // 2, setting.workload.row_tokens // 4):
        workload = setting.workload.model_copy(update={"row_tokens": tokens})
        if tokens and _fitting(setting.model, cluster, workload, [layout]):
            found.append(f"--row-tokens {tokens}")
            break
    for times in _MORE_GPUS:
        more = Cluster(gpu=cluster.gpu, count=cluster.count * times)
        if wide := _fitting(setting.model, more, setting.workload, _wider(layout, times)):
            found.append(f"--count {more.count} (`{write_layout(wide)}`)")
            break
    for gpu in sorted(map(load_gpu, gpu_names()), key=lambda gpu: gpu.memory_gib):
        if gpu.memory_gib > cluster.gpu.memory_gib and gpu.per_node == cluster.gpu.per_node:
            larger = Cluster(gpu=gpu, count=cluster.count)
            if _fitting(setting.model, larger, setting.workload, [layout]):
                found.append(f"--gpu {gpu.id}")
                break
    return found


def _fitting(
    model: Model, cluster: Cluster, workload: Workload, layouts: list[Layout]
) -> Layout | None:
    """The first of `layouts` that is legal and likely to fit."""
    table = LayoutTable.of(layouts)
    legal = check(Setting.of(model, cluster, workload), table).legal
    memory = estimate_memory(model, cluster, workload, table)
    good = np.flatnonzero(legal & (memory.p_fits >= 0.5))
    return layouts[good[0]] if len(good) else None


def _wider(layout: Layout, times: int) -> list[Layout]:
    """`layout` as it is on `times` the GPUs, then with one degree that much larger."""
    wide = [replace(layout, **{name: getattr(layout, name) * times}) for name in ("ep", "pp", "tp")]
    return [layout, *(replace(x, sequence_parallel=x.tp > 1) for x in wide)]


def _one_knob_changes(layout: Layout) -> dict[str, Layout]:
    changes: dict[str, Layout] = {
        "full recompute": replace(
            layout,
            recompute="full",
            recompute_modules=(),
            recompute_method="uniform",
            recompute_layers=1,
        ),
        "one row per microbatch": replace(layout, rows_per_microbatch=1),
    }
    for share in (0.5, 0.9, 1.0):
        changes[f"{share:.0%} of the optimizer offloaded"] = replace(
            layout, optimizer_offload=share, precision_aware_optimizer=True
        )
    for name in ("tp", "pp", "cp", "ep", "etp"):
        degree = getattr(layout, name) * 2
        wide = replace(layout, **{name: degree})
        changes[f"{name.upper()} {degree}"] = replace(wide, sequence_parallel=wide.tp > 1)
    return changes
