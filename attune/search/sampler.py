"""An Optuna sampler over a finite list of legal layouts.

The estimator is the prior mean; a Gaussian process on log(measured / predicted) learns where it
errs, for time and for memory apart; the next layout has the largest expected improvement times
the probability that it fits. Stateless: everything is read from the study, so several askers,
resume and enqueued trials are no special case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.samplers import BaseSampler
from optuna.trial import TrialState

from attune.layout.table import Bools, Floats
from attune.search.candidates import Candidates
from attune.search.progress import MACHINE_FAULTS, RETRIES
from attune.search.residual import Residual, features
from attune.search.study import JUDGED, Parameters

if TYPE_CHECKING:
    import optuna

TIME = Residual(amplitude=0.12, offset=1.0, noise=0.015)
MEMORY = Residual(amplitude=0.08, offset=0.2, noise=0.01)
# A wide offset, since a site's clock, network and allocator shift every layout alike: one run
# moves all predictions, and only what layouts do differently is left to learn.
PRUNED_NOISE = 0.05
OUT_OF_MEMORY_EXCESS = 1.04
"""An out-of-memory run is taken to need at least this much of the limit."""
_EIGHTY_PERCENT = 1.2816
"""Standard deviations on either side that hold 80 % of a normal distribution."""
CHOSEN = "attune:parameters"
"""System attribute with a trial's parameters, so that a parallel asker sees them at once."""


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
        """The free candidate of largest expected gain; -1 where none is left."""
        if not self.free.any():
            return -1
        return int(np.argmax(np.where(self.free, self.gain, -np.inf)))

    @property
    def expected_gain(self) -> float:
        """Expected gain of the best further trial."""
        open_rows = [*np.flatnonzero(self.free), *self.queued]
        return float(self.gain[open_rows].max(initial=0.0))


class FiniteSampler(BaseSampler):
    """Chooses among `candidates` and nothing else."""

    def __init__(self, candidates: Candidates, layers: int) -> None:
        self.candidates = candidates
        self.parameters = Parameters(candidates.table)
        self._points = features(candidates.table, layers)

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
        """What the trials of `study` say of every candidate."""
        trials = study.get_trials(deepcopy=False)
        rows = [self._row(t) for t in trials]
        seen = [(t, r) for t, r in zip(trials, rows) if r is not None]
        judged = [(t, r) for t, r in seen if t.user_attrs.get("outcome") in JUDGED]
        flying = [r for t, r in seen if t.state is TrialState.RUNNING]
        mean, sd, best = self._time(judged, flying)
        believed = self._with_time(self._with_memory(judged), judged, mean, sd)
        return Scores(
            gain=_expected_improvement(best, mean, sd) * believed.p_fits,
            believed=believed,
            free=self._free(seen),
            queued=tuple(r for t, r in seen if t.state is TrialState.WAITING),
        )

    def _free(self, seen: Sequence[tuple[Any, int]]) -> Bools:
        """[n] layouts without a verdict; faults of the machine are none, up to `RETRIES`."""
        faults = Counter(r for t, r in seen if t.user_attrs.get("outcome") in MACHINE_FAULTS)
        settled = [r for t, r in seen if t.state is not TrialState.FAIL or _is_verdict(t)]
        free = np.ones(len(self.candidates), dtype=bool)
        free[settled + [row for row, number in faults.items() if number > RETRIES]] = False
        return free

    def _row(self, trial: optuna.trial.FrozenTrial) -> int | None:
        attributes = trial.system_attrs
        known = trial.params or attributes.get("fixed_params") or attributes.get(CHOSEN) or {}
        return self.parameters.row(known)

    def _with_time(
        self, candidates: Candidates, judged: Sequence[tuple[Any, int]], mean: Floats, sd: Floats
    ) -> Candidates:
        """`candidates` with the step time that the runs teach; the estimator's before any ran."""
        if not any(_ran(t) for t, _ in judged):
            return candidates
        edge = _EIGHTY_PERCENT * sd
        return replace(
            candidates,
            step_s=np.exp(mean),
            low_s=np.exp(mean - edge),
            high_s=np.exp(mean + edge),
        )

    def _with_memory(self, judged: Sequence[tuple[Any, int]]) -> Candidates:
        """The candidates with memory and P(fits) as the runs teach them."""
        from scipy.special import ndtr

        c = self.candidates
        pairs = [(r, self._memory_residual(t, r)) for t, r in judged]
        pairs = [(r, value) for r, value in pairs if value is not None]
        if not pairs:
            return c
        rows = [r for r, _ in pairs]
        values = np.array([value for _, value in pairs], dtype=float)
        mean, sd = MEMORY.predict(self._points[rows], values, self._points)
        chance: Floats = ndtr((np.log(c.limit_gib / c.device_gib) - mean) / np.maximum(sd, 0.01))
        return replace(c, device_gib=c.device_gib * np.exp(mean), p_fits=chance)

    def _memory_residual(self, trial: Any, row: int) -> float | None:
        c = self.candidates
        if trial.user_attrs["outcome"] == "out_of_memory":
            needed = max(OUT_OF_MEMORY_EXCESS * c.limit_gib, c.device_gib[row])
            return float(np.log(needed / c.device_gib[row]))
        peak = trial.user_attrs.get("peak_gib")
        return float(np.log(peak / c.reserved_gib[row])) if peak else None

    def _time(
        self, judged: Sequence[tuple[Any, int]], in_flight: Sequence[int]
    ) -> tuple[Floats, Floats, float]:
        """Mean and spread of log step time [n], and the log of the best measured."""
        prior = np.log(self.candidates.step_s)
        timed = [(t, r) for t, r in judged if t.user_attrs.get("measured_s") and _ran(t)]
        rows = [r for _, r in timed]
        logs = np.array([np.log(t.user_attrs["measured_s"]) for t, _ in timed])
        noise = np.array([_noise(t) for t, _ in timed])
        full = [v for v, (t, _) in zip(logs, timed) if t.user_attrs["outcome"] == "completed"]
        mean, sd = TIME.predict(self._points[rows], logs - prior[rows], self._points, noise)
        if in_flight:
            # Runs in flight are taken to come out as expected (kriging believer).
            rows = [*rows, *in_flight]
            values = np.concatenate([logs - prior[rows[: len(logs)]], mean[list(in_flight)]])
            noise = np.concatenate([noise, np.full(len(in_flight), TIME.noise)])
            mean, sd = TIME.predict(self._points[rows], values, self._points, noise)
        mean = mean + prior
        best = min(full) if full else float(mean[self.candidates.first_choice()])
        return mean, sd, best


def _ran(trial: Any) -> bool:
    return trial.user_attrs["outcome"] in ("completed", "pruned")


def _noise(trial: Any) -> float:
    return TIME.noise if trial.user_attrs["outcome"] == "completed" else PRUNED_NOISE


def _is_verdict(trial: Any) -> bool:
    """Whether a failed trial says that its layout never works, so it is not tried again."""
    return trial.user_attrs.get("outcome", "cancelled") not in MACHINE_FAULTS


def _expected_improvement(best: float, mean: Floats, sd: Floats) -> Floats:
    """[n] expected improvement of log step time below `best`: a fraction of the step time."""
    from scipy.special import ndtr

    z = (best - mean) / sd
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    improvement: Floats = sd * (z * ndtr(z) + density)
    return improvement
