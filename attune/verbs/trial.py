"""Runs one trial of one layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from attune.errors import AttuneError, LayoutError
from attune.estimate import NO_CALIBRATION, LayerCell
from attune.experiment import experiments_folder, load_calibration, load_cells
from attune.layout import Layout, LayoutTable, write_layout
from attune.layout.rules import Setting, broken_rules
from attune.report.trial import TrialRun
from attune.rows.feed import name_rows
from attune.trial.job import Job, Virtual
from attune.trial.launchers import choose_launcher, load_launcher
from attune.trial.result import Step
from attune.trial.runner import read_result, run
from attune.trial.setup import Setup
from attune.verbs.calibration import learn_from_trial
from attune.verbs.suggest import suggestions
from attune.verbs.target import Target


@dataclass(frozen=True, kw_only=True, slots=True)
class ChosenLauncher:
    """A launcher, and why this one."""

    name: str
    reason: str
    options: dict[str, str] = field(default_factory=dict)
    """What the site tells it."""

    @property
    def simulated(self) -> bool:
        """Whether nothing is spent: no hardware runs."""
        return self.name == "simulated"


def find_launcher(
    target: Target, name: str = "auto", options: dict[str, str] | None = None
) -> ChosenLauncher:
    """The launcher of that name; `auto` takes the one that fits this machine.

    Raises:
        AttuneError: no such launcher, or an option that it has not.
    """
    reason = f"--launcher {name}"
    if name == "auto":
        name, reason = choose_launcher(target.cluster)
    found = load_launcher(name, options)
    return ChosenLauncher(name=found.name, reason=reason, options=options or {})


def run_trial(
    target: Target,
    layout: Layout,
    *,
    launcher: ChosenLauncher,
    framework: str = "megatron-core",
    setup: Setup | None = None,
    directory: Path | None = None,
    virtual: Virtual | None = None,
    limit_s: float = 1800.0,
    parity: bool = False,
    watch: Callable[[Step], None] | None = None,
    calibration: Path | None = None,
) -> TrialRun:
    """Trains `layout` for the workload's steps and reads the outcome from the logs.

    Args:
        target: model, cluster and workload.
        layout: what to run; it must be legal.
        launcher: what starts it.
        framework: what trains.
        setup: how the framework is installed, and what of the user's it trains with.
        directory: where the trial's files go; None takes the next free one.
        virtual: the virtual cluster of a simulated run.
        limit_s: wall time after which the run is stopped as `timed_out`.
        parity: whether attune's worker writes `parity.jsonl`, which spoils the first two times.
        watch: sees each step as it is logged.
        calibration: file of what measured runs taught; None is the one in the user's cache. A
            measured run that ends well is learnt from.

    Raises:
        LayoutError: a rule is broken; the message names it and its cure.
        AttuneError: the directory holds a trial already, the rows are not those of their
            manifest, the launcher cannot start, or the calibration is damaged.
    """
    setup = setup or Setup()
    # A virtual cluster is none of those that were measured.
    known = NO_CALIBRATION
    cells: tuple[LayerCell, ...] = ()
    if not launcher.simulated:
        known = load_calibration(target.cluster, framework, calibration)
        about = (target.model, target.cluster, target.workload)
        cells = load_cells(*about, framework, calibration)
    refuse_illegal(target, layout, framework, setup.version)
    workload = name_rows(target.workload, target.model.vocabulary, real=not launcher.simulated)
    place = free_directory("trials", directory)
    job = Job(
        model=target.model,
        cluster=target.cluster,
        workload=workload,
        layout=layout,
        framework=framework,
        setup=setup,
        limit_s=limit_s,
        parity=parity,
        virtual=virtual or Virtual(),
    )
    result = run(job, load_launcher(launcher.name, launcher.options), place, watch=_watching(watch))
    return TrialRun(
        layout=write_layout(layout),
        directory=place,
        launcher_reason=launcher.reason,
        result=result,
        predicted=suggestions(target, LayoutTable.of([layout]), known, cells, framework)[0],
        learnt=learn_from_trial(
            target, layout, result, framework=framework, cells=cells, file=calibration
        ),
    )


def _watching(watch: Callable[[Step], None] | None) -> Callable[[Step], bool] | None:
    if watch is None:
        return None

    def sees(step: Step) -> bool:
        watch(step)
        return True

    return sees


def refuse_illegal(
    target: Target,
    layout: Layout,
    framework: str = "megatron-core",
    version: str | None = None,
) -> None:
    """Returns for a layout that breaks no rule.

    Raises:
        LayoutError: a rule is broken; the message names it and its cure.
    """
    setting = Setting.of(target.model, target.cluster, target.workload, framework, version)
    broken = broken_rules(setting, layout)
    if broken:
        first = broken[0]
        cure = f"; cure: {first.cure}" if first.cure else ""
        more = f" ({len(broken) - 1} more: `attune explain`)" if len(broken) > 1 else ""
        message = f"this layout cannot run: {first.rule.id}: {first.message}{cure}{more}"
        raise LayoutError(message, rule=first.rule.id)


def free_directory(kind: str, directory: Path | None) -> Path:
    """`directory`, or the next free one of that kind under `experiments/`.

    Raises:
        AttuneError: `directory` holds a finished trial.
    """
    if directory is not None:
        if read_result(directory) is not None:
            raise AttuneError(f"{directory} holds a finished trial; give another -o")
        return directory
    folder = experiments_folder() / kind
    number = 1
    while (folder / f"{number:04d}").exists():
        number += 1
    return folder / f"{number:04d}"
