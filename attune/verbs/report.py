"""Reads experiments for a report and for their list."""

from __future__ import annotations

from collections.abc import Iterator

from attune.errors import AttuneError, NothingFoundError
from attune.experiment import Experiment, list_experiments
from attune.experiment.requests import is_running
from attune.recipe import load_recipe
from attune.report.campaign import ListedExperiment, Report
from attune.report.history import History, history_of


def write_report(experiment: str) -> Report:
    """The report of an experiment: all that its journal tells.

    Raises:
        AttuneError: no such experiment, or a damaged journal.
        NothingFoundError: the journal is empty.
    """
    found = Experiment.open(experiment)
    events, newer = found.known_events()
    if not events:
        raise NothingFoundError(
            f"experiment `{experiment}` has no journal yet; "
            f"`attune tune --resume {experiment}` goes on"
        )
    history = history_of(events)
    remarks = tuple(_remarks(found, history, newer))
    return Report(experiment=found.name, history=history, remarks=remarks)


def _remarks(found: Experiment, history: History, newer: tuple[str, ...]) -> Iterator[str]:
    """What a reader must know of the files: what is unfinished, damaged or not understood."""
    if newer:
        yield (
            f"the journal has lines that this attune does not know ({', '.join(newer)}): a newer "
            "one wrote them, and they are left out"
        )
    if history.running is not None and not is_running(found):
        yield (
            f"run {history.running.run} has no end in the journal: attune was killed during it, "
            f"and `attune tune --resume {found.name}` goes on"
        )
    if found.recipe_path.is_file():
        try:
            load_recipe(found.recipe_path)
        except AttuneError as error:
            yield f"the recipe cannot be read: {error}"


def history_so_far(experiment: str) -> History | None:
    """What the journal of an experiment tells; None where a kill came before its first line.

    Raises:
        AttuneError: no such experiment, or a damaged journal.
    """
    events = Experiment.open(experiment).events()
    return history_of(events) if events else None


def find_experiments() -> tuple[ListedExperiment, ...]:
    """All experiments with state and best figure, oldest first; a damaged one is listed so."""
    return tuple(_listed(found) for found in list_experiments())


def _listed(found: Experiment) -> ListedExperiment:
    try:
        inputs, history = found.inputs(), history_of(found.known_events()[0])
    except AttuneError as error:
        return ListedExperiment(
            id=found.name,
            model="",
            gpu="",
            count=0,
            state="damaged",
            runs=0,
            tokens_per_s_per_gpu=None,
            provenance="",
            problem=str(error),
        )
    done, best = history.completed, history.best
    speed = done.tokens_per_s_per_gpu if done else best.tokens_per_s_per_gpu if best else None
    return ListedExperiment(
        id=found.name,
        model=inputs.model.name,
        gpu=inputs.cluster.gpu.name,
        count=inputs.cluster.count,
        state=history.state,
        runs=len(history.runs),
        tokens_per_s_per_gpu=speed,
        provenance=done.status if done else best.provenance if best else "",
    )
