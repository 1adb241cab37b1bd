"""What an engineer would see in a run: symptoms, from its measured figures and predicted parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from attune.experiment.events import Finding
from attune.layout import Layout


@dataclass(frozen=True, kw_only=True)
class Observed:
    """One completed run, as the rules look at it."""

    layout: Layout
    shares: Mapping[str, float]
    """Predicted share of the step time by part (`attune.estimate.step_time.TIME_PARTS`)."""
    stage_gib: tuple[float, ...]
    """Reserved peak of each pipeline stage, of the run; empty where no rank reported."""
    limit_gib: float
    per_node: int
    microbatches: int
    load: float
    """Tokens of the fullest expert rank over the mean; 1 for a dense model."""

    @property
    def unused(self) -> float:
        """Share of the memory that the worst stage leaves free; 0 where nothing is known."""
        return max(1 - max(self.stage_gib) / self.limit_gib, 0.0) if self.stage_gib else 0.0

    @property
    def unevenness(self) -> float:
        """By how much the mean stage works less than the busiest, as a fraction.

        In the estimate the bubble is (sum(W) - max(W)) / VPP, and m max(W) is what stages do.
        """
        pp, busy = self.layout.pp, sum(self.shares[name] for name in _OF_A_STAGE)
        if pp < 2 or not busy:
            return 0.0
        others = self.shares["bubble"] * self.layout.vpp * self.microbatches / busy
        return max(1 - (1 + others) / pp, 0.0)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One symptom: how strong it is, from where it counts, and the knobs that may cure it."""

    symptom: str
    strength: Callable[[Observed], float]
    """Share of the step time, or of the memory; 0 where the rule does not apply."""
    least: float
    """Strength from which the symptom counts; below it a cure drowns in the noise of two runs."""
    words: str
    """What is seen; `{strength:.0%}` and the fields of `Observed` may stand in it."""
    knobs: tuple[str, ...]
    """Names of `attune.search.notes.KNOBS`; one of them is turned."""
    shrinks: tuple[str, ...] = ()
    """Parts of the step that a cure must make smaller together."""
    more_memory: bool = False
    """Whether a cure must use more memory."""
    same: tuple[str, ...] = ()
    """Fields that a cure leaves alone."""

    def finding(self, seen: Observed) -> Finding | None:
        """The symptom in `seen`, or None."""
        strength = self.strength(seen)
        if strength < self.least:
            return None
        return Finding(
            symptom=self.symptom,
            detail=self.words.format(strength=strength, seen=seen),
            strength=strength,
        )


_OF_A_STAGE = ("compute", "attention", "tensor", "context", "expert", "host", "transfer")
_SPARE = 0.15
"""Share of free memory from which an engineer would spend it."""
_SMALL = 0.03
"""Share of the step time below which no one-knob cure shows over the noise of two runs."""


def _part(*names: str) -> Callable[[Observed], float]:
    return lambda seen: float(np.sum([seen.shares[name] for name in names]))


def _across_nodes(degree: Callable[[Layout], int], part: str) -> Callable[[Observed], float]:
    return lambda seen: seen.shares[part] if degree(seen.layout) > seen.per_node else 0.0


def _last_stage(seen: Observed) -> float:
    """By how much the last stage's memory stands over the next one's."""
    if len(seen.stage_gib) < 2 or not all(seen.stage_gib):
        return 0.0
    return max(1 - max(seen.stage_gib[:-1]) / seen.stage_gib[-1], 0.0)


RULES = (
    Rule(
        symptom="idle pipeline",
        strength=_part("bubble"),
        least=0.05,
        words="stages wait {strength:.0%} of the step (PP {seen.layout.pp}, VPP {seen.layout.vpp}, "
        "{seen.microbatches} microbatches)",
        knobs=("PP", "VPP", "rows per microbatch", "TP", "CP"),
        shrinks=("bubble",),
    ),
    Rule(
        symptom="exposed all-to-all",
        strength=_part("expert"),
        least=0.05,
        words="the experts' exchange is visible for {strength:.0%} of the step "
        "(EP {seen.layout.ep})",
        knobs=("EP", "ETP", "dispatcher", "expert overlap", "shared-expert overlap", "TP"),
        shrinks=("expert",),
    ),
    Rule(
        symptom="cross-node TP",
        strength=_across_nodes(lambda layout: layout.tp, "tensor"),
        least=_SMALL,
        words="TP {seen.layout.tp} spans nodes of {seen.per_node} and takes {strength:.0%}",
        knobs=("TP",),
        shrinks=("tensor",),
    ),
    Rule(
        symptom="cross-node EP",
        strength=_across_nodes(lambda layout: layout.ep * layout.etp, "expert"),
        least=_SMALL,
        words="EP {seen.layout.ep} x ETP {seen.layout.etp} spans nodes of {seen.per_node} and its "
        "exchange takes {strength:.0%}",
        knobs=("EP", "ETP", "dispatcher"),
        shrinks=("expert",),
    ),
    Rule(
        symptom="tensor exchange",
        strength=_part("tensor"),
        least=0.08,
        words="tensor-parallel exchange takes {strength:.0%} (TP {seen.layout.tp})",
        knobs=("TP", "tensor-parallel overlap"),
        shrinks=("tensor",),
    ),
    Rule(
        symptom="launch-bound experts",
        strength=lambda seen: seen.shares["host"] if seen.load > 1 or seen.layout.ep > 1 else 0.0,
        least=0.05,
        words="the GPU waits for launches {strength:.0%} of the step: expert kernels are small",
        knobs=("rows per microbatch", "CUDA graphs", "EP", "ETP", "TP"),
        shrinks=("host",),
    ),
    Rule(
        symptom="exposed gradients",
        strength=_part("data"),
        least=0.05,
        words="gradients and parameters are exchanged in the open for {strength:.0%}",
        knobs=("gradient overlap", "distributed optimizer", "TP", "PP"),
        shrinks=("data",),
    ),
    Rule(
        symptom="host-bound offload",
        strength=_part("offload"),
        least=_SMALL,
        words="the optimizer steps on the host for {strength:.0%} of the step",
        knobs=("optimizer offload and precision",),
        shrinks=("offload",),
    ),
    Rule(
        symptom="recompute that buys nothing",
        strength=lambda seen: seen.unused if seen.layout.recompute != "none" else 0.0,
        least=_SPARE,
        words="activations are recomputed ({seen.layout.recompute}) while {strength:.0%} of the "
        "memory stays free",
        knobs=("recompute",),
        shrinks=("compute", "attention", "tensor", "expert", "host"),
        more_memory=True,
    ),
    Rule(
        symptom="unused memory",
        strength=lambda seen: seen.unused,
        least=_SPARE,
        words="{strength:.0%} of the memory stays free on the fullest stage",
        knobs=("rows per microbatch", "TP", "PP", "optimizer offload and precision"),
        more_memory=True,
    ),
    Rule(
        symptom="uneven stages",
        strength=lambda seen: seen.unevenness,
        least=_SMALL,
        words="the mean stage works {strength:.0%} less than the busiest",
        knobs=("PP",),
        shrinks=("bubble", *_OF_A_STAGE),
        same=("pp",),
    ),
    Rule(
        symptom="logits stage",
        strength=_last_stage,
        least=0.05,
        words="the last stage, with the logits, holds {strength:.0%} more than any other",
        knobs=("PP",),
        same=("pp",),
    ),
    Rule(
        symptom="imbalance",
        strength=lambda seen: (1 - 1 / seen.load) * seen.shares["compute"],
        least=0.05,
        words="ranks wait {strength:.0%} of the step for the fullest expert rank "
        "({seen.load:.2f} times the mean)",
        knobs=("EP", "ETP"),
        shrinks=("compute",),
    ),
)


def diagnose(seen: Observed) -> tuple[Finding, ...]:
    """Every symptom in `seen`, the strongest first."""
    found = [finding for rule in RULES if (finding := rule.finding(seen))]
    return tuple(sorted(found, key=lambda finding: -finding.strength))
