"""Where the winner's gain over the reference comes from: measured where runs exist, else predicted.

Every layout between the two is valued by its runs where it ran, else by the estimator as the
trials calibrated it. Where whole paths were measured, only those count.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log, sqrt

import numpy as np

from attune.experiment.events import Attributed, Contribution, Event, Finished
from attune.layout import LayoutTable, parse_layout, write_layout
from attune.layout.rules import Setting, check
from attune.search.advisor_knobs import knob_words
from attune.search.advisor_verdicts import run_noise
from attune.search.attribution_paths import Paths, Steps
from attune.search.beliefs import Beliefs
from attune.search.candidates import judge
from attune.search.runs import Runs
from attune.search.seen import read_trials
from attune.search.study import Parameters

LIKELY = 0.5
"""P(fits) that a layout must have to be run for the sake of attribution."""
_EIGHTY_PERCENT = 1.2816

Events = Generator[Event, None, None]


@dataclass(frozen=True, kw_only=True)
class Value:
    """Speed at one place."""

    layout: str
    log_tokens: float
    """Log of tokens/s/GPU."""
    deviation: float
    runs: tuple[Finished, ...]
    """Its completed runs; empty where it is predicted."""
    p_fits: float


def attribute(runs: Runs, winner: Finished) -> Events:
    """Measures what the budget allows, then splits the gain of `winner` over the reference."""
    reference = runs.standing.reference
    if reference is None or reference.layout == winner.layout:
        return
    told = [e for e in runs.standing.events if isinstance(e, Attributed)]
    if told and told[-1].winner == winner.layout:
        return
    steps = _walkable(runs, reference.layout, winner.layout)
    yield from _measure(runs, steps)
    yield runs.record(split(steps, values(runs, steps), legal_places(runs, steps)))


def _walkable(runs: Runs, before: str, after: str) -> Steps:
    """The steps, those joined that break a rule apart."""
    steps = Steps.between(parse_layout(before), parse_layout(after))
    while not Paths(len(steps.groups), legal_places(runs, steps)).number:
        pairs = [(i, j) for i in range(len(steps.groups)) for j in range(i)]
        joined = [steps.joined(i, j) for i, j in pairs]
        walkable = [s for s in joined if Paths(len(s.groups), legal_places(runs, s)).number]
        steps = (walkable or joined)[0]
    return steps


def legal_places(runs: Runs, steps: Steps) -> frozenset[int]:
    """Places whose layout breaks no rule; start and end ran."""
    inputs = runs.inputs
    table = LayoutTable.of([steps.layout(place) for place in range(steps.full + 1)])
    legal = check(Setting.of(inputs.model, inputs.cluster, inputs.workload), table).legal
    return frozenset({0, steps.full, *np.flatnonzero(legal).tolist()})


def _measure(runs: Runs, steps: Steps) -> Events:
    """Runs the layouts of the path that needs the fewest runs, as far as the budget allows."""
    while sum(r.purpose == "trial" for r in runs.standing.runs) < runs.inputs.attribution_trials:
        found = values(runs, steps)
        rows = {p: runs.candidates.find(steps.layout(p)) for p in range(steps.full + 1)}
        failed = {r.layout for r in runs.standing.runs if r.outcome != "completed"}
        # A layout that cannot be run costs more than any number of runs.
        cost = {
            p: 0.0
            if value.runs
            else 1.0
            if rows[p] is not None and value.p_fits >= LIKELY and value.layout not in failed
            else 1e3
            for p, value in enumerate(found)
        }
        paths = Paths(len(steps.groups), legal_places(runs, steps))
        place = next((p for p in paths.cheapest(cost) if cost[p] == 1.0), None)
        row = None if place is None else rows[place]
        if row is None or runs.expected_hours(row) > runs.hours_left():
            return
        yield from runs.run(row, "trial", "a step between the reference and the winner")


def values(runs: Runs, steps: Steps) -> list[Value]:
    """The speed at every place: of its runs, else as the calibrated estimator predicts."""
    inputs = runs.inputs
    table = LayoutTable.of([steps.layout(place) for place in range(steps.full + 1)])
    about = (inputs.model, inputs.planned_cluster, inputs.workload)
    asked = runs.candidates.having(judge(*about, table))
    beliefs = Beliefs(asked, inputs.model.layers, runs.study.sampler.calibration)
    # The study's rows are those of the candidates, which come first.
    trials = read_trials(runs.study, Parameters(runs.candidates.table))
    believed = beliefs.candidates_after(trials, beliefs.time(trials), beliefs.memory(trials))
    believed = believed.take(np.arange(len(runs.candidates), len(asked)))
    tokens = inputs.workload.global_batch * inputs.workload.row_tokens / inputs.cluster.count
    found = []
    for place in range(steps.full + 1):
        layout = write_layout(steps.layout(place))
        mine = tuple(
            r for r in runs.standing.runs if r.layout == layout and r.outcome == "completed"
        )
        rate = runs.standing.tokens_per_s_per_gpu(layout)
        spread = log(believed.high_s[place] / believed.low_s[place]) / (2 * _EIGHTY_PERCENT)
        noise = sqrt(sum(run_noise(r) ** 2 for r in mine)) / len(mine) if mine else spread
        found.append(
            Value(
                layout=layout,
                log_tokens=log(rate) if rate else log(tokens / believed.step_s[place]),
                deviation=noise,
                runs=mine if rate else (),
                p_fits=float(believed.p_fits[place]),
            )
        )
    return found


def split(steps: Steps, found: Sequence[Value], legal: frozenset[int]) -> Attributed:
    """The gain by knob, over the measured paths where there are any, else over all legal ones."""
    measured = frozenset(p for p in legal if found[p].runs)
    paths = Paths(len(steps.groups), measured)
    if not paths.number:
        paths = Paths(len(steps.groups), legal)
    whole = found[-1].log_tokens - found[0].log_tokens
    total = 100 * (exp(whole) - 1)
    # Percent of a gain for each unit of its logarithm, so that the parts add up to the gain.
    scale = total / whole if abs(whole) > 1e-9 else 100.0
    shown = paths.cheapest({p: float(not value.runs) for p, value in enumerate(found)})
    parts = [
        _contribution(steps, found, paths, step, scale, shown) for step in range(len(steps.groups))
    ]
    return Attributed(
        reference=found[0].layout,
        winner=found[-1].layout,
        total_percent=total,
        orders=paths.number,
        contributions=tuple(sorted(parts, key=lambda part: -part.percent)),
    )


def _contribution(
    steps: Steps,
    found: Sequence[Value],
    paths: Paths,
    step: int,
    scale: float,
    shown: tuple[int, ...],
) -> Contribution:
    weights = paths.coefficients(step)
    share = sum(weight * found[place].log_tokens for place, weight in weights.items())
    square = sum((weight * found[place].deviation) ** 2 for place, weight in weights.items())
    known = all(found[place].runs for place in weights)
    bit = 1 << step
    before, after = next((found[a], found[b]) for a, b in pairwise(shown) if a ^ b == bit)
    both = bool(before.runs and after.runs)
    ends = write_layout(steps.start), write_layout(steps.end)
    words = [knob_words(*ends, knob) for knob in steps.groups[step]]
    return Contribution(
        knob=" with ".join(steps.groups[step]),
        percent=scale * share,
        provenance=found[0].runs[0].provenance if known else "predicted",
        deviation_percent=scale * sqrt(square),
        before=" ".join(old for old, _ in words),
        after=" ".join(new for _, new in words),
        runs=tuple(r.run for r in (*before.runs, *after.runs)) if both else (),
        before_tokens=exp(before.log_tokens) if both else None,
        after_tokens=exp(after.log_tokens) if both else None,
    )


def attribution_notes(attributed: Attributed) -> list[str]:
    """Sentences for the recipe, the largest part first."""
    return [
        f"Of the {attributed.total_percent:+.1f} % over the reference, {part.knob} "
        f"({part.before} -> {part.after}) gives {part.percent:+.1f} points "
        f"(deviation {part.deviation_percent:.1f}): {_source(part)}."
        for part in attributed.contributions
    ]


def _source(part: Contribution) -> str:
    if part.before_tokens is None or part.after_tokens is None:
        return "predicted by the estimator as the trials calibrated it, not measured"
    runs = ", ".join(map(str, part.runs))
    step = 100 * (exp(log(part.after_tokens) - log(part.before_tokens)) - 1)
    told = (
        f"{part.before_tokens:.1f} to {part.after_tokens:.1f} tokens/s/GPU, {step:+.1f} %, in "
        f"runs {runs}"
    )
    if part.provenance == "predicted":
        return f"{told}; the mean over orders holds predicted figures"
    return told
