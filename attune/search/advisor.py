"""The advisor: reads each run as an engineer would, and tests what it supposes.

After a trial it names the symptoms, supposes which single change would cure one, and puts that
layout in line; the trial then confirms or refutes it. All of it is in the journal, and all state is
read from there. The sampler keeps the last word: a hypothesis is tested only where its trial is
worth nearly as much as the best one, so that reasons cost no trials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import sqrt

import numpy as np

from attune.estimate import estimate_step_time
from attune.experiment.events import Advised, Event, Finding, Finished, Hypothesis, Judged
from attune.layout import parse_layout, write_layout
from attune.layout.table import Bools
from attune.search.advisor_knobs import knob_words, one_knob_away
from attune.search.advisor_rules import RULES, Rule, diagnose
from attune.search.advisor_verdicts import hypotheses, judgements
from attune.search.advisor_view import observe
from attune.search.progress import Standing
from attune.search.runs import Runs
from attune.search.sampler import Scores
from attune.search.study import enqueue

WORTH = 0.7
"""A hypothesis is tested where its trial promises at least this share of the best trial's gain."""
LIKELY = 0.5
"""P(fits) that a layout of a hypothesis must have."""
MOST_OPTIONS = 12
"""Changes put before whoever advises."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """A candidate that differs from the base in one knob and may cure a symptom."""

    row: int
    layout: str
    knob: str
    finding: Finding
    expected_percent: float
    low_percent: float
    high_percent: float
    p_fits: float
    worth: float
    """Share of the best trial's promise that this one has."""


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What is put before whoever advises."""

    about: str
    """Model, cluster and workload in one line."""
    base: Finished
    findings: tuple[Finding, ...]
    options: tuple[Option, ...]
    """The most promising first; never empty."""
    told: tuple[Event, ...]
    """Hypotheses and verdicts so far."""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """An option chosen, and why."""

    option: Option | None
    words: str
    source: str
    problem: str = ""
    """Why the rules stand in for the language model."""


Adviser = Callable[[Situation], Advice]


def advise_by_rules(situation: Situation) -> Advice:
    """The most promising option, where its trial costs the search next to nothing."""
    option = situation.options[0]
    if option.worth < WORTH or option.expected_percent <= 0:
        return Advice(option=None, words="", source="rules")
    words = f"{option.finding.symptom}: {option.finding.detail}; {_change(situation, option)}"
    return Advice(option=option, words=words, source="rules")


def _change(situation: Situation, option: Option) -> str:
    before, after = knob_words(situation.base.layout, option.layout, option.knob)
    return f"{option.knob} {before} -> {after} should cure it"


class Advisor:
    """Advises one campaign; without an adviser it only keeps quiet."""

    def __init__(self, runs: Runs, adviser: Adviser | None) -> None:
        self._runs = runs
        self._adviser = adviser

    def events(self, scores: Scores) -> Iterator[Event]:
        """Judges what was tested, diagnoses the last run, and puts a layout in line."""
        if self._adviser is None:
            return
        for judged in judgements(self._runs.standing):
            yield self._runs.record(judged)
        run = _newest(self._runs.standing)
        if run is not None:
            advised = self._advise(run, scores)
            yield self._runs.record(advised)
        self._enqueue(scores)

    def _advise(self, run: Finished, scores: Scores) -> Advised:
        seen = observe(self._runs, run)
        findings = diagnose(seen) if seen else ()
        base = self._runs.standing.best
        quiet = Advised(run=run.run, findings=findings)
        # A layout that stands in line already would push the test back until it is stale.
        if base is None or scores.queued or self._adviser is None:
            return quiet
        found = observe(self._runs, base)
        causes = diagnose(found) if found else ()
        options = self._options(base, causes, scores)
        if not options:
            return quiet
        situation = Situation(
            about=_about(self._runs),
            base=base,
            findings=causes,
            options=options,
            told=tuple(e for e in self._runs.standing.events if isinstance(e, Advised | Judged)),
        )
        advice = self._adviser(situation)
        number = 1 + len(hypotheses(self._runs.standing))
        return Advised(
            run=run.run,
            findings=findings,
            hypothesis=_hypothesis(number, base, advice),
            problem=advice.problem,
        )

    def _options(
        self, base: Finished, findings: tuple[Finding, ...], scores: Scores
    ) -> tuple[Option, ...]:
        """Every one-knob change that may cure a symptom, the most promising first."""
        candidates = self._runs.candidates
        row = candidates.find(parse_layout(base.layout))
        best = scores.best()
        if row is None or best < 0:
            return ()
        careful = scores.gain * np.sqrt(scores.believed.p_fits)
        found: dict[int, Option] = {}
        by_symptom = {rule.symptom: rule for rule in RULES}
        open_rows = scores.free & (scores.believed.p_fits >= LIKELY)
        for finding in findings:
            rule = by_symptom[finding.symptom]
            for place, knob in self._cures(rule, row, open_rows):
                found.setdefault(place, _option(place, knob, finding, base, scores, careful[best]))
        ranked = sorted(found.values(), key=lambda option: -careful[option.row])
        return tuple(ranked[:MOST_OPTIONS])

    def _cures(self, rule: Rule, row: int, open_rows: Bools) -> Iterator[tuple[int, str]]:
        candidates = self._runs.candidates
        near = one_knob_away(candidates.table, row, rule.knobs)
        for name in rule.same:
            column = getattr(candidates.table, name)
            near = {r: knob for r, knob in near.items() if column[r] == column[row]}
        rows = [r for r in near if open_rows[r]]
        if rule.more_memory:
            rows = [r for r in rows if candidates.device_gib[r] > candidates.device_gib[row]]
        if rule.shrinks and rows:
            table = candidates.table.take(np.array([row, *rows]))
            inputs = self._runs.inputs
            about = (inputs.model, inputs.cluster, inputs.workload, table)
            time = estimate_step_time(*about, inputs.known)
            part = np.sum([time.parts[name] for name in rule.shrinks], axis=0)
            rows = [r for r, seconds in zip(rows, part[1:]) if seconds < part[0]]
        yield from ((r, near[r]) for r in rows)

    def _enqueue(self, scores: Scores) -> None:
        """Puts the layouts of untested hypotheses in line; a kill may have come before."""
        tested = {e.hypothesis for e in self._runs.standing.events if isinstance(e, Judged)}
        for hypothesis in hypotheses(self._runs.standing):
            row = self._runs.candidates.find(parse_layout(hypothesis.layout))
            if hypothesis.number in tested or row is None or not scores.free[row]:
                continue
            why = f"hypothesis {hypothesis.number}: {hypothesis.words}"
            why += f"; expected {hypothesis.expected_percent:+.1f} %"
            enqueue(self._runs.study, self._parameters(row), why)

    def _parameters(self, row: int) -> dict[str, object]:
        found: dict[str, object] = self._runs.study.sampler.parameters.of(row)
        return found


def _option(
    row: int, knob: str, finding: Finding, base: Finished, scores: Scores, best: float
) -> Option:
    believed, step_s = scores.believed, base.step_time_s or 0.0
    careful = scores.gain[row] * sqrt(believed.p_fits[row])
    return Option(
        row=row,
        layout=write_layout(believed.table.row(row)),
        knob=knob,
        finding=finding,
        expected_percent=float(100 * (step_s / believed.step_s[row] - 1)),
        low_percent=float(100 * (step_s / believed.high_s[row] - 1)),
        high_percent=float(100 * (step_s / believed.low_s[row] - 1)),
        p_fits=float(believed.p_fits[row]),
        worth=float(careful / best) if best > 0 else 0.0,
    )


def _hypothesis(number: int, base: Finished, advice: Advice) -> Hypothesis | None:
    option = advice.option
    if option is None:
        return None
    return Hypothesis(
        number=number,
        base=base.run,
        layout=option.layout,
        knob=option.knob,
        symptom=option.finding.symptom,
        words=advice.words,
        expected_percent=option.expected_percent,
        low_percent=option.low_percent,
        high_percent=option.high_percent,
        source="llm" if advice.source == "llm" else "rules",
    )


def _newest(standing: Standing) -> Finished | None:
    """The last run of a reference or candidate, unless it was advised on already."""
    runs = [r for r in standing.runs if r.purpose in ("reference", "candidate")]
    told = {e.run for e in standing.events if isinstance(e, Advised)}
    return runs[-1] if runs and runs[-1].run not in told else None


def _about(runs: Runs) -> str:
    inputs, workload = runs.inputs, runs.inputs.workload
    return (
        f"{inputs.model.name} on {inputs.cluster.count} {inputs.cluster.gpu.name}, "
        f"{inputs.cluster.per_node} to a node; rows of {workload.row_tokens} tokens, global batch "
        f"{workload.global_batch}, {workload.precision}"
    )
