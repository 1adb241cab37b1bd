"""Forward and backward seconds of one layer and microbatch, recompute included."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attune.layout import LayoutTable
from attune.layout.table import GRANULARITIES, Bools, Floats
from attune.virtual.parts import Part
from attune.virtual.setting import Setting

COVERED_BY = {
    "layernorm": ("layernorm",),
    "core_attn": ("core_attn",),
    "projections": (),
    "mla_up_proj": ("mla_up_proj",),
    "mlp": ("mlp",),
    "router": ("moe",),
    "dispatch": ("moe",),
    "experts": ("moe",),
    "moe_act": ("moe", "moe_act"),
    "shared_experts": ("moe", "shared_experts"),
}
"""Modules of selective recompute that repeat a part."""

_SHARPNESS = 6
"""How sharply a pass turns from device-bound to host-bound."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerTime:
    """Seconds of one layer and microbatch, [n]."""

    forward: Floats
    backward: Floats
    """Without full recompute, selective recompute included."""
    again: Floats
    """What full recompute adds to the backward pass."""


def covered(table: LayoutTable, part: str) -> Bools:
    """Rows whose selective recompute repeats `part`."""
    rows = np.zeros(len(table), dtype=np.bool_)
    for module in COVERED_BY[part]:
        rows |= table.recomputes(module)
    return rows


def fully(table: LayoutTable) -> Bools:
    """Rows with full recompute."""
    rows: Bools = table.recompute == GRANULARITIES.index("full")
    return rows


def layer_time(setting: Setting, parts: dict[str, Part]) -> LayerTime:
    """Seconds of a layer that is made of `parts`."""
    table = setting.table
    zero = np.zeros(len(table))
    device = sum((part.forward for part in parts.values()), zero)
    exposed = sum((part.exposed for part in parts.values()), zero)
    launches = sum((part.launches for part in parts.values()), zero)
    backward = sum((part.backward for part in parts.values()), zero)
    shown = sum((part.exposed_backward for part in parts.values()), zero)
    repeated = 1.25 * launches
    for name, part in parts.items():
        again = covered(table, name).astype(np.float64)
        backward = backward + again * part.forward
        shown = shown + again * part.exposed
        repeated = repeated + again * (part.launches + 2)
    host = _launch_time(setting, "router" in parts)
    forward = _pass(device, launches * host) + exposed
    return LayerTime(
        forward=forward, backward=_pass(backward, repeated * host) + shown, again=forward
    )


def _pass(device: Floats, host: Floats) -> Floats:
    """Host and device work at once; the slower one rules."""
    seconds: Floats = (device**_SHARPNESS + host**_SHARPNESS) ** (1 / _SHARPNESS)
    return seconds


def _launch_time(setting: Setting, experts: bool) -> Floats:
    """Host time per kernel; graphs save most of it, less where token counts vary."""
    saving = setting.hidden.graph_saving * (0.6 if experts else 1.0)
    graphs = np.where(setting.table.cuda_graphs, 1 - saving, 1.0)
    overlap = np.where(setting.table.overlap_experts & experts, 1.15, 1.0)
    seconds: Floats = setting.hidden.kernel_us * 1e-6 * graphs * overlap
    return seconds
