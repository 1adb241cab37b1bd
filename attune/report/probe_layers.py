"""A layer probe as a person reads it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attune.report.calibration import NOTHING_LEARNT, Learnt
from attune.report.trial import draw_failure
from attune.report.words import badge, grid, percent, say, say_marked, say_whole, seconds
from attune.trial.result import LayerPass, TrialResult

if TYPE_CHECKING:
    from rich.console import Console

_NAMES = {"dense": "layer with dense MLP", "moe": "MoE layer", "head": "head and loss"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbedLayer:
    """One kind of layer, timed; seconds of one microbatch."""

    measured: LayerPass
    predicted_s: float
    """Both passes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayersProbed:
    """What a layer probe found."""

    model: str
    gpu: str
    count: int
    """GPUs of the layout."""
    layout: str
    probe_layout: str
    probe_count: int
    """GPUs that the probe took."""
    experts: int
    """Experts that the probe had: fewer where EP was cut to a node."""
    all_experts: int
    result: TrialResult
    layers: tuple[ProbedLayer, ...]
    step_s: float
    """Step time predicted without the probe."""
    probed_step_s: float
    """The same with the layer times of the probe, and its 80 % interval."""
    low_s: float
    high_s: float
    launcher: str
    launcher_reason: str
    directory: Path
    learnt: Learnt = NOTHING_LEARNT

    @property
    def completed(self) -> bool:
        """Whether every kind of layer was timed."""
        return self.result.outcome == "completed"


def draw_layer_probe(found: LayersProbed, console: Console) -> None:
    """Each kind of layer, measured beside predicted; then the step time with and without."""
    result = found.result
    say(console, f"{found.model} on {found.count} {found.gpu}, layers timed on {found.probe_count}")
    say_whole(console, found.layout)
    if found.launcher == "simulated":
        say(
            console,
            f"SIMULATED ({found.launcher_reason}): a virtual cluster answered; no figure is "
            "measured",
        )
    if found.experts < found.all_experts:
        say(
            console,
            f"EP cut to one node, {found.experts} of {found.all_experts} experts: a rank holds and "
            "receives as much as in the whole; the exchange across nodes stays predicted",
        )
    colour = "green" if found.completed else "red"
    say_marked(console, f"[{colour}]{result.outcome}[/], {badge(result.provenance)}")
    if not found.completed:
        draw_failure(result, console)
    _draw_layers(found, console)
    if found.completed:
        say(
            console,
            f"step time, predicted: {seconds(found.probed_step_s)} s with these layers (80 %: "
            f"{seconds(found.low_s)} to {seconds(found.high_s)} s), {seconds(found.step_s)} s "
            "without",
        )
    if found.learnt.words:
        say(console, found.learnt.words)
    say(console, f"directory: {found.directory}")


def _draw_layers(found: LayersProbed, console: Console) -> None:
    if not found.layers:
        return
    columns = ["ms of one microbatch", "forward", "backward", "both", "predicted", "off by"]
    table = grid(columns)
    for one in found.layers:
        layer = one.measured
        off = one.predicted_s / layer.seconds - 1
        table.add_row(
            _NAMES[layer.kind],
            _milliseconds(layer.forward_s),
            _milliseconds(layer.backward_s),
            _milliseconds(layer.seconds),
            _milliseconds(one.predicted_s),
            ("+" if off >= 0 else "") + percent(off),
        )
    console.print(table)


def _milliseconds(value: float) -> str:
    return f"{1e3 * value:.3g}"
