"""The Optuna study: its parameters, and what each outcome tells it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attune.errors import AttuneError
from attune.layout import LayoutTable
from attune.layout.table import COLUMNS
from attune.trial.result import TrialResult

if TYPE_CHECKING:
    import optuna

JUDGED = ("completed", "out_of_memory", "host_out_of_memory", "pruned")
"""Outcomes that say something about the layout's speed or memory."""

PROBES = "probes"
"""User attribute of the study with all memory probes."""


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


@contextmanager
def readable_study(path: Path) -> Iterator[None]:
    """Says in one message what is wrong with the study's file.

    Raises:
        AttuneError: the file is damaged, or cannot be read or written.
    """
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import DBAPIError

    try:
        yield
    except (StorageInternalError, DBAPIError) as error:
        cause = error.__cause__ if isinstance(error, StorageInternalError) else error
        words = getattr(cause, "orig", None) or cause or error
        raise AttuneError(
            f"{path} cannot be used ({words}); make sure that the disk has space, or, when the "
            "file is damaged, move it away: --resume builds it again from the journal"
        ) from error


def enqueue(study: optuna.Study, parameters: dict[str, Any], why: str) -> None:
    """Puts a layout next in line, unless a killed process has left it there already."""
    from optuna.trial import TrialState

    waiting = study.get_trials(deepcopy=False, states=[TrialState.WAITING])
    if all(trial.system_attrs.get("fixed_params") != parameters for trial in waiting):
        study.enqueue_trial(parameters, user_attrs={"why": why})


def abandon(study: optuna.Study) -> None:
    """Ends the trials that a killed process asked for, so that their layouts are free again."""
    from optuna.trial import TrialState

    for trial in study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
        study.tell(trial.number, state=TrialState.FAIL)


def restore(study: optuna.Study, run: int, parameters: dict[str, Any], space: Any) -> int:
    """Puts the trial of a run that the study has lost back, to be told; its number."""
    from optuna.trial import TrialState, create_trial

    lost = create_trial(
        state=TrialState.RUNNING,
        params=parameters,
        distributions=space,
        user_attrs={"run": run},
    )
    study.add_trial(lost)
    return study.get_trials(deepcopy=False)[-1].number


def tell(study: optuna.Study, number: int, result: TrialResult, limit_gib: float) -> None:
    """Writes what a run showed into trial `number` and ends it, unless it has ended already.

    The value is the step time in seconds. Out of memory is a complete trial with the worst
    finite value and a violated `memory` constraint, so it teaches memory; a pruned one keeps
    what it showed; everything else fails and teaches nothing.
    """
    import optuna
    from optuna.trial import TrialState

    if study.get_trials(deepcopy=False)[number].state.is_finished():
        return
    trial = optuna.Trial(study, trial_id(study, number))
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


def write_probes(study: optuna.Study, probes: list[dict[str, Any]]) -> None:
    """Writes what memory probes showed: parameters, whether it fits, reserved peak."""
    if study.user_attrs.get(PROBES, []) != probes:
        study.set_user_attr(PROBES, probes)


def trial_id(study: optuna.Study, number: int) -> int:
    """The storage's own id of trial `number`."""
    return study._storage.get_trial_id_from_study_id_trial_number(study._study_id, number)


def _shown(result: TrialResult) -> float | None:
    """Mean of the steps after the first that a run cut short showed."""
    seconds = [step.seconds for step in result.steps if step.step > 0]
    return sum(seconds) / len(seconds) if seconds else None


def _worst(study: optuna.Study) -> float:
    values = [t.value for t in study.get_trials(deepcopy=False) if t.value is not None]
    return max(values, default=1e6)
