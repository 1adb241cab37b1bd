"""How far two honest runs of one model may differ: documented bounds, and what was observed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attune.layout import Layout
from attune.trial.result import TrialResult
from attune.workload import Precision, Workload

BOUND_STEPS = 20
BOUND_AT_FIRST_STEP = 1e-5
BOUND_AT_LAST_STEP = 1e-4
"""Float32 losses: room for rounding on devices that add in another order from run to run.

Measured on CPU (tiny models, 20 steps, `docs/verification.md`): layouts alone differ by at most
some 1e-7, and a learning rate 2 % off by 2.5e-4 at step 3 and about 3e-3 from step 9 on.
"""
REGROUPED = 0.5
"""Relative loss difference allowed per unit of the auxiliary loss's coefficient where the arms
group rows otherwise: that loss is taken per microbatch, so other groups give another one.

Measured (`docs/verification.md`): 1.3e-3 at a coefficient of 0.01, rows in pairs against single.
"""
REGROUPED_NORM = 30.0
"""The same for gradient norms; measured 0.11 at a coefficient of 0.01."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """A relative difference that grows on a log scale from step 1 to step 20, and stays there."""

    first: float
    last: float

    def at(self, number: int) -> float:
        """The bound at step `number` (1, ...): training amplifies rounding differences."""
        share = min((number - 1) / (BOUND_STEPS - 1), 1.0)
        return self.first * (self.last / self.first) ** share


LOSS: dict[Precision, Bound] = {
    "fp32": Bound(first=BOUND_AT_FIRST_STEP, last=BOUND_AT_LAST_STEP),
    "bf16": Bound(first=5e-3, last=1e-2),
}
"""Losses. bf16: honest pairs on CPU differ by up to 4.5e-3 at batches of 256 tokens
(`docs/verification.md`); published recipes end within 8.5e-4 of their references."""
NORM: dict[Precision, Bound] = {
    "fp32": Bound(first=1e-4, last=1e-3),
    "bf16": Bound(first=0.2, last=0.5),
}
"""Gradient norms, which see a wrong scale that Adam hides from the loss. bf16: up to 0.15."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Floor:
    """The noise that a pair of arms is held against, step by step."""

    loss: tuple[float, ...]
    norm: tuple[float, ...]
    why: str
    """What it rests on, in words."""


def layout_bound(number: int) -> float:
    """Largest relative loss difference of float32 arms at step `number` (1, ...)."""
    return LOSS["fp32"].at(number)


def noise_floor(
    workload: Workload,
    candidate: Layout,
    reference: Layout,
    repeats: tuple[TrialResult, TrialResult] | None = None,
) -> Floor | None:
    """The larger of the documented bound and what two runs of the reference arm show.

    None where no bound is documented for the workload's precision.
    """
    if workload.precision not in LOSS:
        return None
    steps, coefficient = workload.steps, workload.optimization.auxiliary_loss
    loss = [LOSS[workload.precision].at(step + 1) for step in range(steps)]
    norm = [NORM[workload.precision].at(step + 1) for step in range(steps)]
    words = [f"documented bound of {workload.precision} arms"]
    if coefficient and candidate.rows_per_microbatch != reference.rows_per_microbatch:
        loss = [max(bound, REGROUPED * coefficient) for bound in loss]
        norm = [max(bound, REGROUPED_NORM * coefficient) for bound in norm]
        words.append(f"rows grouped otherwise under an auxiliary loss of {coefficient:g}")
    if repeats is not None:
        loss = _larger(loss, _between(*(run.losses for run in repeats)))
        norm = _larger(norm, _between(*(norms(run) for run in repeats)))
        words.append("two runs of the reference arm")
    return Floor(loss=tuple(loss), norm=tuple(norm), why=", ".join(words))


def norms(arm: TrialResult) -> tuple[float | None, ...]:
    """Gradient norm of every step asked; None where it is missing."""
    by_step = {step.step: step.grad_norm for step in arm.steps}
    return tuple(by_step.get(step) for step in range(arm.steps_asked))


def relative(ours: float, theirs: float) -> float:
    """Signed difference over the size of `theirs`."""
    return (ours - theirs) / abs(theirs or 1.0)


def _between(first: Sequence[float | None], second: Sequence[float | None]) -> list[float]:
    return [
        0.0 if ours is None or theirs is None else abs(relative(ours, theirs))
        for ours, theirs in zip(first, second)
    ]


def _larger(bounds: list[float], observed: list[float]) -> list[float]:
    """Observed noise counts twice: the next pair may differ by as much on the other side."""
    seen = observed + [0.0] * (len(bounds) - len(observed))
    return [max(bound, 2 * value) for bound, value in zip(bounds, seen)]
