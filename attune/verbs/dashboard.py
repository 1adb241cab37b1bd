"""Opens optuna-dashboard on a copy of an experiment's study."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from attune.errors import AttuneError, NothingFoundError
from attune.experiment import Experiment
from attune.report.notes import study_note, trial_note
from attune.search.study import readable_study
from attune.verbs.report import write_report

if TYPE_CHECKING:
    import optuna

_CONSTRAINT = "constraints:"
"""How Optuna 5 begins the name of each constraint among a trial's attributes."""


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def dashboard_server(experiment: str, port: int) -> Iterator[WSGIServer]:
    """A server of the dashboard on the loopback; 0 takes a free port.

    What somebody changes in the dashboard changes the copy, never the experiment.

    Raises:
        AttuneError: optuna-dashboard is not installed, no such experiment, a damaged study, or
            the port is taken.
        NothingFoundError: the experiment has no study yet.
    """
    try:
        from optuna_dashboard import wsgi
    except ImportError as error:
        raise AttuneError(
            "attune dashboard needs optuna-dashboard; run `pip install attune[dashboard]`"
        ) from error
    study = copy_study(experiment)
    try:
        server = make_server("127.0.0.1", port, wsgi(study._storage), handler_class=_Quiet)
    except OSError as error:
        raise AttuneError(f"port {port} cannot be used ({error.strerror}); give --port") from error
    with server:
        yield server


def copy_study(experiment: str) -> optuna.Study:
    """The study of an experiment in memory, with attune's notes and names.

    Every trial has its constraints also in the one list that optuna-dashboard reads (of 0.21), so
    that it draws a layout that did not fit as infeasible.

    Raises:
        AttuneError: no such experiment, or a damaged study.
        NothingFoundError: the experiment has no study yet.
    """
    import optuna
    from optuna_dashboard import save_note

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    report = write_report(experiment)
    copied = optuna.create_study(
        study_name=report.experiment, storage=optuna.storages.InMemoryStorage()
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        copied.set_metric_names(["step time, s"])
    for trial in _trials(Experiment.open(experiment)):
        copied.add_trial(_with_constraints(trial))
    save_note(copied, study_note(report))
    runs = {run.run: run for run in report.history.runs}
    for trial in copied.get_trials(deepcopy=False):
        run = runs.get(trial.user_attrs.get("run", -1))
        if run is not None:
            note = trial_note(run, report.history.reason(run.run))
            save_note(optuna.Trial(copied, trial._trial_id), note)
    return copied


def _trials(found: Experiment) -> list[optuna.trial.FrozenTrial]:
    import optuna

    if not found.study_path.is_file():
        raise NothingFoundError(
            f"experiment `{found.name}` has no study yet; `attune tune --resume {found.name}` "
            "goes on"
        )
    with readable_study(found.study_path):
        try:
            study = optuna.load_study(
                study_name="attune", storage=f"sqlite:///{found.study_path.resolve()}"
            )
        except KeyError as error:
            raise AttuneError(f"{found.study_path} holds no study of attune") from error
        return study.get_trials(deepcopy=False)


def _with_constraints(trial: optuna.trial.FrozenTrial) -> optuna.trial.FrozenTrial:
    copied = copy.deepcopy(trial)
    attributes = dict(copied.system_attrs)
    values = [value for name, value in attributes.items() if name.startswith(_CONSTRAINT)]
    copied.system_attrs = attributes | ({"constraints": values} if values else {})
    return copied
