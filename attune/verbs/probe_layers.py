"""Measures the layers of a layout on one node, in the place of a trial on all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attune.estimate import (
    NO_CALIBRATION,
    Calibration,
    LayerCell,
    Observation,
    cell_layout,
    estimate_step_time,
    expected_layers,
    node_of,
    observe_layers,
)
from attune.estimate.layer_time import LayerTime
from attune.experiment import load_calibration, save_cell
from attune.layout import Layout, LayoutTable, write_layout
from attune.report.calibration import NOTHING_LEARNT, Learnt
from attune.report.probe_layers import LayersProbed, ProbedLayer
from attune.rows.feed import SYNTHETIC
from attune.trial.job import Job, Virtual
from attune.trial.launchers import load_launcher
from attune.trial.probe import PROBING, LayerKind, LayerProbe
from attune.trial.result import LayerPass, TrialResult
from attune.trial.runner import run
from attune.verbs.calibration import learn_observations
from attune.verbs.target import Target
from attune.verbs.trial import ChosenLauncher, free_directory, refuse_illegal


def one_node(target: Target, layout: Layout) -> Target:
    """The target on the GPUs of one node that the layers need, with EP cut to it.

    Raises:
        LayoutError: they need more than one node.
    """
    node = node_of(target.model, target.cluster, layout)
    rows = node.layout.rows_per_microbatch * node.layout.dp(node.cluster.count)
    # Rows are not read: what enters a layer is drawn.
    changes = {"global_batch": rows, "rows": SYNTHETIC, "rows_sha256": None}
    return Target(
        model=node.model,
        cluster=node.cluster,
        workload=target.workload.model_copy(update=changes),
    )


def probe_layers(
    target: Target,
    layout: Layout,
    *,
    launcher: ChosenLauncher,
    directory: Path | None = None,
    virtual: Virtual | None = None,
    limit_s: float = 600.0,
    calibration: Path | None = None,
) -> LayersProbed:
    """Times two dense layers, two MoE layers and the head of the layout on one node.

    A measured probe is saved: step times of all layouts with such layers are then predicted with
    it, and the calibration learns from it.

    Args:
        target: model, the whole cluster, and workload.
        layout: the layout of the whole cluster; it must be legal.
        launcher: what starts the probe, on the GPUs of `one_node`.
        directory: where the files go; None takes the next free one.
        virtual: the virtual cluster of a simulated probe.
        limit_s: wall time after which the probe is stopped as `timed_out`.
        calibration: file of what measured runs taught; None is the one in the user's cache.

    Raises:
        LayoutError: a rule is broken, the layers need more than one node, or the worker cannot
            build them.
        AttuneError: the probe cannot start.
    """
    refuse_illegal(target, layout)
    node, known = one_node(target, layout), NO_CALIBRATION
    if not launcher.simulated:
        known = load_calibration(target.cluster, PROBING, calibration)
    about = (target.model, target.cluster, target.workload)
    expected = expected_layers(*about, layout, known)
    place = free_directory("probes", directory)
    job = Job(
        model=node.model,
        cluster=node.cluster,
        workload=node.workload,
        layout=node_of(target.model, target.cluster, layout).layout,
        framework=PROBING,
        limit_s=limit_s,
        virtual=virtual or Virtual(),
        probe=LayerProbe(kinds=layer_kinds(target)),
    )
    result = run(job, load_launcher(launcher.name, launcher.options), place)
    cell = LayerCell(layout=cell_layout(layout), passes=_passes(result))
    step = [
        estimate_step_time(*about, LayoutTable.of([layout]), known, PROBING, cells)
        for cells in ((), (cell,))
    ]
    return LayersProbed(
        model=target.model.name,
        gpu=target.cluster.gpu.name,
        count=target.cluster.count,
        layout=write_layout(layout),
        probe_layout=write_layout(job.layout),
        probe_count=node.cluster.count,
        experts=node.model.experts.count if node.model.experts else 0,
        all_experts=target.model.experts.count if target.model.experts else 0,
        result=result,
        layers=tuple(_layer(one, expected) for one in result.layers),
        step_s=float(step[0].total[0]),
        probed_step_s=float(step[1].total[0]),
        low_s=float(step[1].low[0]),
        high_s=float(step[1].high[0]),
        launcher=launcher.name,
        launcher_reason=launcher.reason,
        directory=place,
        learnt=_learn(target, result, cell, calibration),
    )


def layer_kinds(target: Target) -> tuple[LayerKind, ...]:
    """The kinds of layer that the model has, and its head."""
    moe = target.model.moe_count
    dense: tuple[LayerKind, ...] = ("dense",) if moe < target.model.layers else ()
    return (*dense, *(("moe",) if moe else ()), "head")


def _passes(result: TrialResult) -> Mapping[str, tuple[float, float]]:
    """What was timed; nothing of a probe that did not end."""
    if result.outcome != "completed":
        return {}
    return {layer.kind: (layer.forward_s, layer.backward_s) for layer in result.layers}


def _layer(layer: LayerPass, expected: Mapping[str, LayerTime]) -> ProbedLayer:
    return ProbedLayer(measured=layer, predicted_s=float(expected[layer.kind].seconds[0]))


def _learn(target: Target, result: TrialResult, cell: LayerCell, file: Path | None) -> Learnt:
    """Saves the cell, and has the calibration learn from it."""
    if result.provenance != "measured" or not cell.passes:
        return NOTHING_LEARNT
    about = (target.model, target.cluster, target.workload)

    def seen(calibration: Calibration) -> list[Observation]:
        return observe_layers(expected_layers(*about, cell.layout, calibration), cell)

    learnt = learn_observations(target, seen, framework=PROBING, file=file)
    if learnt.problem:
        return learnt
    save_cell(cell, *about, PROBING, file)
    return learnt
