"""An Optuna sampler over a finite list of legal layouts.

The estimator is the prior mean; Gaussian processes on log(measured / predicted) learn where it
errs, for time and for memory apart; the next layout has the largest expected improvement times
the probability that it fits. Stateless: everything is read from the study, so several askers,
resume and enqueued trials are no special case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.samplers import BaseSampler

from attune.estimate.calibration import NO_CALIBRATION, Calibration
from attune.layout.table import Bools, Floats
from attune.search.beliefs import Beliefs
from attune.search.candidates import Candidates
from attune.search.seen import CHOSEN, Seen, read_trials, settled_rows
from attune.search.study import Parameters

if TYPE_CHECKING:
    import optuna

_CAUTION = 0.5
"""Power of P(fits) that the choice adds to the expected gain: a run out of memory costs its place
in the budget and shows no time (virtual clusters: fewer of them, and the best as soon)."""


@dataclass(frozen=True, kw_only=True)
class Scores:
    """What the sampler thinks of every candidate."""

    gain: Floats
    """[n] expected gain over the best so far, as a fraction, times P(fits)."""
    believed: Candidates
    """The candidates with predictions calibrated by the trials so far."""
    free: Bools
    """[n] not tried, not in flight and not in line."""
    queued: tuple[int, ...]
    """Candidates that stand in line, the first one first."""

    def next(self) -> int:
        """The candidate to try next: the first in line, else the best; -1 where none is left."""
        return self.queued[0] if self.queued else self.best()

    def best(self) -> int:
        """The free candidate of largest expected gain, with caution; -1 where none is left."""
        if not self.free.any():
            return -1
        careful = self.gain * self.believed.p_fits**_CAUTION
        return int(np.argmax(np.where(self.free, careful, -np.inf)))

    @property
    def expected_gain(self) -> float:
        """Expected gain of the best further trial."""
        open_rows = [*np.flatnonzero(self.free), *self.queued]
        return float(self.gain[open_rows].max(initial=0.0))


class FiniteSampler(BaseSampler):
    """Chooses among `candidates` and nothing else."""

    def __init__(
        self, candidates: Candidates, layers: int, calibration: Calibration = NO_CALIBRATION
    ) -> None:
        self.candidates = candidates
        self.parameters = Parameters(candidates.table)
        self._beliefs = Beliefs(candidates, layers, calibration)
        self._last: tuple[tuple[Seen, ...], Scores] | None = None

    def infer_relative_search_space(
        self, study: optuna.Study, trial: optuna.trial.FrozenTrial
    ) -> dict[str, Any]:
        return self.parameters.distributions()

    def sample_independent(
        self, study: Any, trial: Any, param_name: str, param_distribution: Any
    ) -> Any:
        raise RuntimeError(f"`{param_name}` is no parameter of the candidates")

    def sample_relative(
        self,
        study: optuna.Study,
        trial: optuna.trial.FrozenTrial,
        search_space: dict[str, Any],
    ) -> dict[str, Any]:
        if "fixed_params" in trial.system_attrs:
            return {}
        row = self.scores(study).best()
        if row < 0:
            raise RuntimeError("every candidate has been tried")
        chosen = self.parameters.of(row)
        study._storage.set_trial_system_attr(trial._trial_id, CHOSEN, chosen)
        return chosen

    def scores(self, study: optuna.Study) -> Scores:
        """What the trials of `study` say of every candidate; fitted once for equal trials."""
        trials = read_trials(study, self.parameters)
        if self._last is None or self._last[0] != trials:
            self._last = trials, self._score(trials)
        return self._last[1]

    def _score(self, trials: tuple[Seen, ...]) -> Scores:
        beliefs = self._beliefs
        time, memory = beliefs.time(trials), beliefs.memory(trials)
        believed = beliefs.candidates_after(trials, time, memory)
        free = np.ones(len(self.candidates), dtype=bool)
        free[settled_rows(trials)] = False
        return Scores(
            gain=time.improvement(beliefs.bound(trials, time)) * believed.p_fits,
            believed=believed,
            free=free,
            queued=tuple(seen.row for seen in trials if seen.place == "in line"),
        )
