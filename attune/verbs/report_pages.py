"""Gathers what the pages of a report show, and writes them."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np

from attune.errors import AttuneError
from attune.estimate import estimate_memory, estimate_step_time
from attune.experiment import Experiment, Inputs, experiments_folder
from attune.experiment.events import Finished
from attune.layout import Layout, LayoutTable, parse_layout, write_layout
from attune.layout.nearest import distance
from attune.layout.rules import Setting, check
from attune.layout.space import enumerate_layouts
from attune.recipe import Recipe, load_recipe
from attune.report.arms import Arm, ExperimentReport, Neighbour
from attune.report.history import History
from attune.report.report_pages import write_pages
from attune.trial.runner import read_result
from attune.verbs.explain import explain
from attune.verbs.report import write_report
from attune.verbs.report_schedule import schedule_of
from attune.verbs.target import Target

_NEAR = 2.5
"""Farthest layout, as `distance` counts, that one knob may lead to."""
_MOST_NEIGHBOURS = 24


def write_report_pages(
    experiment: str, folder: Path | None = None, *, single_file: bool = False
) -> Path:
    """Writes the HTML report of an experiment, with Markdown and CSV beside it; gives the page.

    Raises:
        AttuneError: no such experiment, a damaged one, or a folder that cannot be written.
        NothingFoundError: the journal is empty.
    """
    found = Experiment.open(experiment)
    place = folder or experiments_folder().parent / "reports" / found.name
    return write_pages(gather_report(experiment), place, single_file=single_file)


def gather_report(experiment: str) -> ExperimentReport:
    """Everything that the pages of an experiment show; what it has not reached yet is empty.

    Raises:
        AttuneError: no such experiment, or a damaged one.
        NothingFoundError: the journal is empty.
    """
    found, told = Experiment.open(experiment), write_report(experiment)
    history = told.history
    inputs = found.inputs()
    target = Target(model=inputs.model, cluster=inputs.cluster, workload=inputs.workload)
    recipe = _recipe(found)
    winner = _winner(history)
    return ExperimentReport(
        experiment=found.name,
        history=history,
        arms=tuple(_arms(found, target, winner, history.baseline)),
        neighbours=tuple(_neighbours(target, inputs, winner)) if winner else (),
        limit_gib=inputs.cluster.gpu.memory_gib,
        float32=inputs.workload.precision == "fp32",
        notes=(recipe.notes or "") if recipe else "",
        command=recipe.run if recipe else "",
        environment="\n".join(f"{k}={v}" for k, v in recipe.env.items()) if recipe else "",
        versions=tuple(inputs.versions.items()),
        usd_per_gpu_hour=inputs.cluster.gpu.usd_per_gpu_hour,
        remarks=told.remarks,
    )


def _winner(history: History) -> Finished | None:
    """The winner's run; before the end, the best candidate's."""
    number = history.completed.winner_run if history.completed else None
    chosen = next((run for run in history.runs if run.run == number), None)
    return chosen or history.best


def _recipe(found: Experiment) -> Recipe | None:
    try:
        return load_recipe(found.recipe_path) if found.recipe_path.is_file() else None
    except AttuneError:
        return None  # the report shows what can be read; `recipe check` says what is wrong


def _arms(
    found: Experiment, target: Target, winner: Finished | None, reference: Finished | None
) -> list[Arm]:
    pairs = (("winner", winner), ("reference", reference))
    return [_arm(found, target, name, run) for name, run in pairs if run is not None]


def _arm(found: Experiment, target: Target, name: str, run: Finished) -> Arm:
    result, layout = read_result(found.run_folder(run.run)), parse_layout(run.layout)
    return Arm(
        name=name,
        run=run.run,
        provenance=run.provenance,
        steps=result.steps if result else (),
        explanation=explain(target, layout),
        schedule=schedule_of(target, layout),
    )


def _neighbours(target: Target, inputs: Inputs, winner: Finished) -> list[Neighbour]:
    """Legal layouts of the space that differ from the winner in one field, as predicted."""
    mine = parse_layout(winner.layout)
    drawn = enumerate_layouts(inputs.space, target.model, target.cluster.count, inputs.fixed).table
    near = drawn.take(np.flatnonzero(distance(mine, drawn) <= _NEAR))
    setting = Setting.of(target.model, target.cluster, target.workload)
    near = near.take(np.flatnonzero(check(setting, near).legal))
    changes = {row: _change(mine, near.row(row)) for row in range(len(near))}
    kept = [row for row, change in changes.items() if change]
    if not kept:
        return []
    table = LayoutTable.of([mine, *(near.row(row) for row in kept)])
    about = (target.model, target.cluster, target.workload, table)
    time, memory = estimate_step_time(*about).total, estimate_memory(*about).p_fits
    found = [
        Neighbour(
            change=changes[row],
            layout=write_layout(near.row(row)),
            step_s=float(time[place]),
            p_fits=float(memory[place]),
            percent=float(100 * (time[place] / time[0] - 1)),
        )
        for place, row in enumerate(kept, start=1)
    ]
    return sorted(found, key=lambda neighbour: neighbour.percent)[:_MOST_NEIGHBOURS]


_FOLLOWS = (
    "sequence_parallel",
    "recompute_method",
    "recompute_layers",
    "precision_aware_optimizer",
)
"""Fields that follow from another: a change of them beside one other is still one knob."""


def _change(mine: Layout, other: Layout) -> str:
    """`tp=8` where that one field differs; empty for more, or none."""
    differ = [f.name for f in fields(mine) if getattr(mine, f.name) != getattr(other, f.name)]
    own = [name for name in differ if name not in _FOLLOWS] or differ
    if len(own) != 1:
        return ""
    words = dict(word.split("=", 1) for word in write_layout(other).split())
    value = getattr(other, own[0])
    return f"{own[0]}={words.get(own[0], 'none' if value is None else value)}"
