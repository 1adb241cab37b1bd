"""Notes on gains: what the trials show, each note naming its runs."""

from __future__ import annotations

from collections.abc import Sequence

from attune.experiment.events import Finished, Gain
from attune.layout import parse_layout
from attune.layout.layout import Layout
from attune.search.progress import Standing

KNOBS: dict[str, tuple[str, ...]] = {
    "TP": ("tp", "sequence_parallel"),
    "PP": ("pp", "first", "last", "pipeline_layout"),
    "VPP": ("vpp",),
    "CP": ("cp",),
    "EP": ("ep",),
    "ETP": ("etp",),
    "rows per microbatch": ("rows_per_microbatch",),
    "recompute": ("recompute", "recompute_modules", "recompute_method", "recompute_layers"),
    "optimizer offload and precision": (
        "optimizer_offload",
        "overlap_offload",
        "precision_aware_optimizer",
    ),
    "distributed optimizer": ("distributed_optimizer",),
    "dispatcher": ("dispatcher",),
    "shared-expert overlap": ("overlap_shared_experts",),
    "expert overlap": ("overlap_experts",),
    "gradient overlap": ("overlap_gradients", "overlap_parameters"),
    "tensor-parallel overlap": ("overlap_tensor",),
    "CUDA graphs": ("cuda_graphs",),
    "delayed weight gradients": ("delayed_weight_gradients",),
}
"""Every field of a layout, under the knob that a person turns; together they count as one."""


def knobs_changed(before: Layout, after: Layout) -> list[str]:
    """Names of the knobs in which two layouts differ."""
    return [
        knob
        for knob, fields in KNOBS.items()
        if any(getattr(before, f) != getattr(after, f) for f in fields)
    ]


def gain_notes(standing: Standing, winner: Finished, gains: Sequence[Gain]) -> list[str]:
    """Sentences for the recipe: the whole gain, then each one-knob step that two runs show."""
    notes = [_whole(gain) for gain in gains]
    mine = parse_layout(winner.layout)
    for run in standing.runs:
        if run.purpose != "candidate" and run.purpose != "reference":
            continue
        knobs = knobs_changed(parse_layout(run.layout), mine)
        if len(knobs) == 1:
            notes.append(_step(knobs[0], run, winner))
    return notes


def _whole(gain: Gain) -> str:
    if gain.percent is None:
        return f"Against the {gain.over} no gain is stated: that arm gave no figure."
    if gain.percent == 0:
        return f"The winner is the {gain.over} itself (`{gain.layout}`): no candidate beat it."
    return (
        f"{gain.percent:+.1f} % tokens/s/GPU over the {gain.over} "
        f"({gain.tokens_per_s_per_gpu:.1f}; `{gain.layout}`)."
    )


def _step(knob: str, other: Finished, winner: Finished) -> str:
    runs = f"runs {other.run} and {winner.run}"
    if other.tokens_per_s_per_gpu and winner.tokens_per_s_per_gpu:
        percent = 100 * (winner.tokens_per_s_per_gpu / other.tokens_per_s_per_gpu - 1)
        return f"{knob} alone: {percent:+.1f} % against `{other.layout}` ({runs})."
    return f"{knob} alone: `{other.layout}` ended as {other.outcome} ({runs})."
