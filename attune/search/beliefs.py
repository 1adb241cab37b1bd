"""Step time and memory of every candidate, as the trials so far teach them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attune.estimate.calibration import Calibration
from attune.layout.table import Floats
from attune.search.candidates import Candidates
from attune.search.features import MEMORY_SPREAD, features
from attune.search.residual import Belief, Places, Residual
from attune.search.seen import PROBED, Seen

TIME = Residual(
    offset=0.3,
    amplitudes=(0.03, 0.06, 0.12, 0.25, 0.45),
    lengths=(1.5, 2.5, 5.0),
    alone=0.02,
    noise=0.015,
)
MEMORY = Residual(
    offset=0.1, amplitudes=(0.03, 0.06, 0.1), lengths=(1.5, 3.0), alone=0.0, noise=0.01
)
# Deviations: errors of the estimator on published runs, and spread between runs of one layout. The
# grids span what the finite-list study and virtual clusters of other seeds than the benchmark's
# called for.
_APART = 0.6
"""Share of the multipliers' deviation that they have apart: what they have in common is the
offset's already (virtual clusters of other seeds)."""
_PRUNED_NOISE = 0.05
_PROBE_NOISE = 0.03
"""Of a memory probe against a trial: no peers, balanced routing (reserved of ranks of one stage
differs by up to 4 %)."""
_EIGHTY_PERCENT = 1.2816
"""Standard deviations on either side that hold 80 % of a normal distribution."""


class Beliefs:
    """Turns trials into beliefs about all candidates."""

    def __init__(self, candidates: Candidates, layers: int, calibration: Calibration) -> None:
        self.candidates = candidates
        points = features(candidates.table, layers)
        covariance = _APART**2 * np.array(calibration.covariance)
        self._time = Places.of(points, candidates.time_shares, covariance)
        spread = np.diag(np.square(MEMORY_SPREAD))
        self._memory = Places.of(points, candidates.memory_shares, spread)

    def time(self, trials: Sequence[Seen]) -> Belief:
        """Of log(step time / predicted); runs in flight are taken to come out as expected."""
        predicted = self.candidates.step_s
        timed = [(t, t.measured_s) for t in trials if t.ran and t.measured_s]
        rows = [t.row for t, _ in timed]
        values = np.array([np.log(seconds / predicted[t.row]) for t, seconds in timed])
        noise = np.array([_time_noise(t) for t, _ in timed])
        belief = TIME.believe(self._time, rows, values, noise)
        flying = [t.row for t in trials if t.place == "in flight"]
        if not flying:
            return belief
        return TIME.believe(
            self._time,
            rows + flying,
            np.concatenate([values, belief.mean[flying]]),
            np.concatenate([noise, np.full(len(flying), TIME.noise)]),
        )

    def memory(self, trials: Sequence[Seen]) -> Belief:
        """Of log(memory / predicted).

        A run out of memory says only that more than the limit was needed: it counts as what runs
        that fitted make of such a layout, given that it exceeds the limit.
        """
        reserved = self.candidates.reserved_gib
        known = [(t, t.peak_gib) for t in trials if (t.ran or t.outcome == PROBED) and t.peak_gib]
        rows = [t.row for t, _ in known]
        values = np.array([np.log(peak / reserved[t.row]) for t, peak in known])
        noise = np.array([MEMORY.noise if t.ran else _PROBE_NOISE for t, _ in known])
        belief = MEMORY.believe(self._memory, rows, values, noise)
        full = [t.row for t in trials if t.outcome == "out_of_memory"]
        if not full:
            return belief
        means, deviations = _beyond(belief, full, self._edge())
        return MEMORY.believe(
            self._memory,
            rows + full,
            np.concatenate([values, means]),
            np.concatenate([noise, np.maximum(deviations, MEMORY.noise)]),
        )

    def candidates_after(self, trials: Sequence[Seen], time: Belief, memory: Belief) -> Candidates:
        """The candidates with predictions as the runs teach them; the estimator's before any."""
        found = self.candidates
        if any(t.ran or t.outcome in (PROBED, "out_of_memory") for t in trials):
            found = replace(
                found,
                device_gib=found.device_gib * np.exp(memory.mean),
                p_fits=memory.chance_below(self._edge()),
            )
        if any(t.ran for t in trials):
            found = _with_time(found, time)
        return found

    def bound(self, trials: Sequence[Seen], time: Belief) -> Floats:
        """[n] log(step time / predicted) below which a candidate beats the best so far."""
        predicted = self.candidates.step_s
        limit = self.candidates.limit_gib
        fitting = [t for t in trials if t.outcome == "completed" and (t.peak_gib or 0) <= limit]
        done = [t.measured_s for t in fitting if t.measured_s]
        first = self.candidates.first_choice()
        best = min(done) if done else predicted[first] * np.exp(time.mean[first])
        bound: Floats = np.log(best / predicted)
        return bound

    def _edge(self) -> Floats:
        """[n] log(memory / predicted) above which a candidate does not fit."""
        edge: Floats = np.log(self.candidates.limit_gib / self.candidates.device_gib)
        return edge


def _with_time(candidates: Candidates, time: Belief) -> Candidates:
    middle, edge = np.log(candidates.step_s) + time.mean, _EIGHTY_PERCENT * time.deviation
    return replace(
        candidates,
        step_s=np.exp(middle),
        low_s=np.exp(middle - edge),
        high_s=np.exp(middle + edge),
    )


def _time_noise(trial: Seen) -> float:
    return TIME.noise if trial.outcome == "completed" else _PRUNED_NOISE


def _beyond(belief: Belief, rows: list[int], edge: Floats) -> tuple[Floats, Floats]:
    """Mean and deviation at `rows` of what is believed, given that it lies above `edge`.

    Moments of a normal distribution cut off from below.
    """
    from scipy.special import log_ndtr

    mean, deviation = belief.mean[rows], belief.deviation[rows]
    z = (edge[rows] - mean) / deviation
    hazard = np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(-z))
    shrunk = np.maximum(1 - hazard * (hazard - z), 0.05)
    return mean + deviation * hazard, deviation * np.sqrt(shrunk / 2)
