"""The Optuna study: its parameters, and what each outcome tells it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attune.layout import LayoutTable
from attune.layout.table import COLUMNS
from attune.trial.result import TrialResult

if TYPE_CHECKING:
    import optuna

JUDGED = ("completed", "out_of_memory", "host_out_of_memory", "pruned")
"""Outcomes that say something about the layout's speed or memory."""
CHOSEN = "attune:parameters"
"""System attribute with a trial's parameters, so that a parallel asker sees them at once."""


class Parameters:
    """The varying columns of a table as Optuna parameters, and back to its rows."""

    def __init__(self, table: LayoutTable) -> None:
        names = [n for n in COLUMNS if len(np.unique(getattr(table, n))) > 1] or ["tp"]
        self._columns = {name: getattr(table, name).tolist() for name in names}
        if "pipeline_layout" in self._columns:
            texts = (*table.pipeline_layouts, "none")
            self._columns["pipeline_layout"] = [texts[i] for i in self._columns["pipeline_layout"]]
        self._rows = {key: row for row, key in enumerate(zip(*self._columns.values()))}

    def distributions(self) -> dict[str, Any]:
        """One categorical distribution per varying column, the same on every resume."""
        from optuna.distributions import CategoricalDistribution

        return {
            name: CategoricalDistribution(sorted(set(values)))
            for name, values in self._columns.items()
        }

    def of(self, row: int) -> dict[str, Any]:
        """Parameters of a row."""
        return {name: values[row] for name, values in self._columns.items()}

    def row(self, parameters: dict[str, Any]) -> int | None:
        """Row of these parameters, or None where the table has no such row."""
        try:
            return self._rows.get(tuple(parameters[name] for name in self._columns))
        except KeyError:
            return None


def open_study(path: Path, sampler: Any) -> optuna.Study:
    """The study in the SQLite file at `path`, made when absent."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = optuna.storages.RDBStorage(
        f"sqlite:///{path}", engine_kwargs={"connect_args": {"timeout": 30}}
    )
    return optuna.create_study(
        study_name="attune",
        storage=storage,
        sampler=sampler,
        direction="minimize",
        load_if_exists=True,
    )


def tell(study: optuna.Study, number: int, result: TrialResult, limit_gib: float) -> None:
    """Writes what a run showed into trial `number` and ends it.

    The value is the step time in seconds. Out of memory is a complete trial with the worst
    finite value and a violated `memory` constraint, so it teaches memory; a pruned one keeps
    what it showed; everything else fails and teaches nothing. A trial that was told before is
    left as it is: a kill may come between the study and the journal.
    """
    import optuna
    from optuna.trial import TrialState

    trial = optuna.Trial(study, _trial_id(study, number))
    if study.trials[number].state.is_finished():
        return
    trial.set_user_attr("outcome", result.outcome)
    trial.set_user_attr("evidence", result.evidence)
    trial.set_user_attr("measured_s", result.step_time_s or _shown(result))
    trial.set_user_attr("peak_gib", result.peak_reserved_gib)
    if result.outcome not in JUDGED:
        study.tell(number, state=TrialState.FAIL)
        return
    fits = result.outcome in ("completed", "pruned")
    peak = result.peak_reserved_gib or 0.0
    over = peak / limit_gib - 1 if fits else max(peak / limit_gib - 1, 0.0) + 0.02
    trial.set_constraint("memory", over)
    if result.outcome == "pruned":
        trial.report(_shown(result) or _worst(study), len(result.steps))
        study.tell(number, state=TrialState.PRUNED)
    else:
        study.tell(number, result.step_time_s or _worst(study))


def enqueue(study: optuna.Study, parameters: dict[str, Any], why: str) -> None:
    """Asks for a layout next, unless it already waits (a kill may follow the first asking)."""
    from optuna.trial import TrialState

    waiting = study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
    if all(t.system_attrs.get("fixed_params") != parameters for t in waiting):
        study.enqueue_trial(parameters, user_attrs={"why": why})


def drop_orphans(study: optuna.Study) -> list[dict[str, Any]]:
    """Fails the trials that were asked for but whose run never began; gives their parameters.

    Only for a study that no other process asks: a running trial is then one that a kill left.
    """
    from optuna.trial import TrialState

    found = []
    for trial in study.get_trials(states=(TrialState.RUNNING,)):
        study.tell(trial.number, state=TrialState.FAIL)
        chosen = trial.system_attrs.get("fixed_params") or trial.system_attrs.get(CHOSEN)
        if chosen:
            found.append(chosen)
    return found


def _trial_id(study: optuna.Study, number: int) -> int:
    return study._storage.get_trial_id_from_study_id_trial_number(study._study_id, number)


def _shown(result: TrialResult) -> float | None:
    """Mean of the steps after the first that a run cut short showed."""
    seconds = [step.seconds for step in result.steps if step.step > 0]
    return sum(seconds) / len(seconds) if seconds else None


def _worst(study: optuna.Study) -> float:
    values = [t.value for t in study.get_trials(deepcopy=False) if t.value is not None]
    return max(values, default=1e6)
