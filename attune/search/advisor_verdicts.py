"""Hypotheses and what their trials showed."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

from attune.experiment.events import Advised, Finished, Hypothesis, Judged
from attune.search.progress import RETRIES, Standing, machine_fault

NOISE = 0.005
"""Least relative deviation between two runs of one layout (published runs spread 0.5 to 1 %)."""
_TIMED_STEPS = 15
"""Steps of a run of 20 that are timed."""


def hypotheses(standing: Standing) -> list[Hypothesis]:
    """Every hypothesis so far, in order."""
    advised = [e.hypothesis for e in standing.events if isinstance(e, Advised)]
    return [hypothesis for hypothesis in advised if hypothesis]


def judgements(standing: Standing) -> Iterator[Judged]:
    """The verdicts that are due: on hypotheses whose layout ran and that have none."""
    told = {e.hypothesis for e in standing.events if isinstance(e, Judged)}
    runs = {run.run: run for run in standing.runs}
    for hypothesis in hypotheses(standing):
        tests = [r for r in standing.runs if r.layout == hypothesis.layout]
        tests = [r for r in tests if r.purpose == "candidate" and r.run > hypothesis.base]
        sound = [r for r in tests if not machine_fault(r)]
        # A fault of the machine says nothing yet: the layout runs once more.
        due = bool(sound) or len(tests) > RETRIES
        if hypothesis.number not in told and due and hypothesis.base in runs:
            yield judge(hypothesis, runs[hypothesis.base], (sound or tests)[-1])


def judge(hypothesis: Hypothesis, base: Finished, test: Finished) -> Judged:
    """What `test` says of the hypothesis about `base`.

    Confirmed is a gain over the noise and over half of what was expected; refuted is one that the
    noise cannot lift to half of it.
    """
    measured, half = gain_percent(base, test), hypothesis.expected_percent / 2
    noise = 200 * sqrt(run_noise(base) ** 2 + run_noise(test) ** 2)
    words = f"{measured:+.1f} % (noise {noise:.1f} %)" if measured is not None else test.outcome
    if measured is None:
        lost = test.outcome in ("out_of_memory", "host_out_of_memory", "pruned", "illegal_layout")
        verdict = "refuted" if lost else "unclear"
    elif measured > noise and measured >= half:
        verdict = "confirmed"
    elif measured + noise < max(half, noise):
        verdict = "refuted"
    else:
        verdict = "unclear"
    return Judged.model_validate(
        {
            "hypothesis": hypothesis.number,
            "run": test.run,
            "verdict": verdict,
            "expected_percent": hypothesis.expected_percent,
            "measured_percent": measured,
            "words": f"expected {hypothesis.expected_percent:+.1f} %, showed {words}",
        }
    )


def gain_percent(before: Finished, after: Finished) -> float | None:
    """Gain in tokens/s/GPU of one run over another, percent; None where one gave no figure."""
    if not before.step_time_s or not after.step_time_s:
        return None
    return 100 * (before.step_time_s / after.step_time_s - 1)


def run_noise(run: Finished) -> float:
    """Relative deviation of a run's mean step time: of its steps, and between runs."""
    steps = (run.step_time_cv_percent or 0.0) / 100 / sqrt(_TIMED_STEPS)
    return sqrt(steps**2 + NOISE**2)


def verdict_notes(standing: Standing) -> list[str]:
    """Sentences for the recipe: every hypothesis that was tested, and what came of it."""
    supposed = {hypothesis.number: hypothesis for hypothesis in hypotheses(standing)}
    return [
        f"Hypothesis {e.hypothesis}, {e.verdict} (runs {supposed[e.hypothesis].base} and {e.run}): "
        f"{supposed[e.hypothesis].words}; {e.words}."
        for e in standing.events
        if isinstance(e, Judged) and e.hypothesis in supposed
    ]
