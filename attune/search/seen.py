"""The trials of a study as the sampler reads them: which layout, and what it showed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from optuna.trial import TrialState

from attune.search.progress import MACHINE_FAULTS, RETRIES
from attune.search.study import PROBES, Parameters

if TYPE_CHECKING:
    import optuna

CHOSEN = "attune:parameters"
"""System attribute with a trial's parameters, so that a parallel asker sees them at once."""

PROBED = "probed"
"""Outcome of a memory probe that did not run out of memory."""

Place = Literal["in line", "in flight", "ended"]
_PLACES: dict[TrialState, Place] = {
    TrialState.WAITING: "in line",
    TrialState.RUNNING: "in flight",
}


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One trial of a candidate."""

    row: int
    place: Place
    failed: bool
    """Whether it taught nothing."""
    outcome: str | None
    measured_s: float | None
    """Step time; of the steps shown where it was stopped early."""
    peak_gib: float | None
    """Largest reserved peak that a rank reported."""

    @property
    def ran(self) -> bool:
        """Whether it trained for some steps, so that its time and memory are true."""
        return self.outcome in ("completed", "pruned")

    @property
    def settles(self) -> bool:
        """Whether its layout is not to be tried again, whatever other trials show."""
        is_verdict = self.outcome not in (None, PROBED, *MACHINE_FAULTS)
        return is_verdict if self.failed else True


def read_trials(study: optuna.Study, parameters: Parameters) -> tuple[Seen, ...]:
    """Every trial of a candidate, in order, then the memory probes."""
    trials = study.get_trials(deepcopy=False)
    read = [_read(trial, parameters) for trial in trials]
    read += [_read_probe(probe, parameters) for probe in study.user_attrs.get(PROBES, [])]
    return tuple(seen for seen in read if seen is not None)


def settled_rows(trials: tuple[Seen, ...]) -> list[int]:
    """Candidates with a verdict; faults of the machine are none, up to `RETRIES`."""
    faults = Counter(seen.row for seen in trials if seen.outcome in MACHINE_FAULTS)
    often = [row for row, number in faults.items() if number > RETRIES]
    return [seen.row for seen in trials if seen.settles] + often


def _read_probe(probe: dict[str, Any], parameters: Parameters) -> Seen | None:
    """A probe that ran out of memory settles its layout as a trial would."""
    row = parameters.row(probe["parameters"])
    if row is None:
        return None
    return Seen(
        row=row,
        place="ended",
        failed=True,
        outcome=PROBED if probe["fits"] else "out_of_memory",
        measured_s=None,
        peak_gib=probe["peak_gib"],
    )


def _read(trial: optuna.trial.FrozenTrial, parameters: Parameters) -> Seen | None:
    attributes = trial.system_attrs
    known = trial.params or attributes.get("fixed_params") or attributes.get(CHOSEN) or {}
    row = parameters.row(known)
    if row is None:
        return None
    return Seen(
        row=row,
        place=_PLACES.get(trial.state, "ended"),
        failed=trial.state is TrialState.FAIL,
        outcome=trial.user_attrs.get("outcome"),
        measured_s=trial.user_attrs.get("measured_s"),
        peak_gib=trial.user_attrs.get("peak_gib"),
    )
