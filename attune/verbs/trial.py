"""Runs one trial of one layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from attune.errors import AttuneError, LayoutError
from attune.experiment import experiments_folder
from attune.layout import Layout, LayoutTable, write_layout
from attune.layout.rules import Setting, broken_rules
from attune.report.trial import TrialRun
from attune.rows.feed import name_rows
from attune.trial.job import Job, Virtual
from attune.trial.launchers import choose_launcher, load_launcher
from attune.trial.result import Step
from attune.trial.runner import read_result, run
from attune.trial.setup import Setup
from attune.verbs.suggest import suggestions
from attune.verbs.target import Target


@dataclass(frozen=True, kw_only=True, slots=True)
class ChosenLauncher:
    """A launcher, and why this one."""

    name: str
    reason: str

    @property
    def simulated(self) -> bool:
        """Whether nothing is spent: no hardware runs."""
        return self.name == "simulated"


def find_launcher(target: Target, name: str = "auto") -> ChosenLauncher:
    """The launcher of that name; `auto` takes the one that fits this machine.

    Raises:
        AttuneError: no such launcher.
    """
    if name == "auto":
        chosen, reason = choose_launcher(target.cluster)
        return ChosenLauncher(name=chosen, reason=reason)
    return ChosenLauncher(name=load_launcher(name).name, reason=f"--launcher {name}")


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
    watch: Callable[[Step], None] | None = None,
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
        watch: sees each step as it is logged.

    Raises:
        LayoutError: a rule is broken; the message names it and its cure.
        AttuneError: the directory holds a trial already, the rows are not those of their
            manifest, or the launcher cannot start.
    """
    setup = setup or Setup()
    _refuse_illegal(target, layout, framework, setup)
    workload = name_rows(target.workload, target.model.vocabulary, real=not launcher.simulated)
    place = _free_directory(directory)
    job = Job(
        model=target.model,
        cluster=target.cluster,
        workload=workload,
        layout=layout,
        framework=framework,
        setup=setup,
        limit_s=limit_s,
        virtual=virtual or Virtual(),
    )
    result = run(job, load_launcher(launcher.name), place, watch=_watching(watch))
    return TrialRun(
        layout=write_layout(layout),
        directory=place,
        launcher_reason=launcher.reason,
        result=result,
        predicted=suggestions(target, LayoutTable.of([layout]))[0],
    )


def _watching(watch: Callable[[Step], None] | None) -> Callable[[Step], bool] | None:
    if watch is None:
        return None

    def sees(step: Step) -> bool:
        watch(step)
        return True

    return sees


def _refuse_illegal(target: Target, layout: Layout, framework: str, setup: Setup) -> None:
    setting = Setting.of(target.model, target.cluster, target.workload, framework, setup.version)
    broken = broken_rules(setting, layout)
    if broken:
        first = broken[0]
        cure = f"; cure: {first.cure}" if first.cure else ""
        more = f" ({len(broken) - 1} more: `attune explain`)" if len(broken) > 1 else ""
        message = f"this layout cannot run: {first.rule.id}: {first.message}{cure}{more}"
        raise LayoutError(message, rule=first.rule.id)


def _free_directory(directory: Path | None) -> Path:
    if directory is not None:
        if read_result(directory) is not None:
            raise AttuneError(f"{directory} holds a finished trial; give another -o")
        return directory
    folder = experiments_folder() / "trials"
    number = 1
    while (folder / f"{number:04d}").exists():
        number += 1
    return folder / f"{number:04d}"
