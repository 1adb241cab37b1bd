"""Each event of a campaign as one plain line, for logs and pipes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attune.experiment.events import (
    Advised,
    Attributed,
    CheckResult,
    Completed,
    Contribution,
    Enumerated,
    Event,
    Finished,
    Interrupted,
    Judged,
    Probed,
    Progress,
    Proposed,
    ReferenceChosen,
    Started,
    Stopped,
    Verified,
)
from attune.report.words import brief, gib, number, percent, seconds, spent


def lines(event: Event) -> list[str]:
    """The lines that tell `event`; none for a step other than the last."""
    return _TELLERS[event.kind](event)


def simulated_notice(started: Started) -> str:
    """The line that opens and closes a campaign on a virtual cluster; empty on hardware."""
    if started.provenance != "predicted":
        return ""
    return (
        f"SIMULATED ({started.launcher_reason}): a virtual cluster plays {started.count} "
        f"{started.gpu}; every figure is predicted, none is measured"
    )


def unproven_notice(started: Started | None) -> str:
    """What the checks of a campaign on a virtual cluster are worth; empty on hardware."""
    if started is None or started.provenance != "predicted":
        return ""
    return "  these curves are simulated: they prove nothing, and the recipe lists each as not run"


def next_steps(experiment: str) -> str:
    """What a person does with a campaign that ended."""
    return f"next: attune report {experiment}\n      attune export {experiment} -o FILE"


def _started(event: Started) -> list[str]:
    notice = simulated_notice(event)
    budget = f"{event.trials} trials"
    if event.gpu_hours is not None:
        budget += f", at most {event.gpu_hours:g} GPU-hours"
    verb = "resumes" if event.resumed else "starts"
    told = [
        f"experiment {event.experiment} {verb}: {event.model} on {event.count} {event.gpu}, "
        f"{event.workload}",
        f"launcher {event.launcher} ({event.launcher_reason}), {budget}, seed {event.seed}",
    ]
    return [notice, *told] if notice else told


def _enumerated(event: Enumerated) -> list[str]:
    return [
        f"search space {event.space}: {event.drawn:,} drawn, {event.legal:,} legal, "
        f"{event.fitting:,} predicted to fit, {event.candidates:,} candidates"
    ]


def _reference(event: ReferenceChosen) -> list[str]:
    return [f"reference: {event.layout} ({event.source})"]


def _proposed(event: Proposed) -> list[str]:
    told = event.predicted
    return [
        f"run {event.run} {event.purpose}: {event.layout}",
        f"  why: {event.why}",
        f"  predicted: {seconds(told.step_s)} s ({seconds(told.low_s)} to "
        f"{seconds(told.high_s)}), {gib(told.peak_gib)} GiB, P(fits) {percent(told.p_fits, 0)}",
    ]


def _progress(event: Progress) -> list[str]:
    if event.step + 1 < event.steps:
        return []
    return [f"  step {event.step + 1}/{event.steps}: {seconds(event.seconds)} s"]


def _finished(event: Finished) -> list[str]:
    if event.outcome != "completed":
        why = event.evidence or event.log_class or "no evidence"
        told = [f"run {event.run} {event.outcome}: {brief(why)}"]
        return told + ([f"  advice: {event.advice}"] if event.advice else [])
    best = ", best so far" if event.best else ""
    spread = (
        f", CV {event.step_time_cv_percent:.2f} %" if event.step_time_cv_percent is not None else ""
    )
    return [
        f"run {event.run} completed: {seconds(event.step_time_s)} s{spread}, "
        f"{number(event.tokens_per_s_per_gpu)} tokens/s/GPU, {gib(event.peak_gib)} GiB "
        f"({event.provenance}; {against(event)}){best}"
    ]


def against(event: Finished) -> str:
    """How far the prediction was from what the run gave."""
    if event.step_time_s is None:
        return "nothing to compare"
    error = event.step_time_s / event.predicted.step_s - 1
    return f"step time {100 * error:+.1f} % against prediction"


def _probed(event: Probed) -> list[str]:
    found = {True: f"holds {gib(event.peak_gib)} GiB", False: "runs out of memory", None: "failed"}
    told = f"memory probe {event.number}, {event.provenance}: {found[event.fits]}"
    if event.spared_gpu_hours:
        told += (
            f", which spares a trial of {event.spared_gpu_hours - event.gpu_hours:.2f} GPU-hours"
        )
    return [f"{told} (P(fits) was {percent(event.p_fits, 0)}): {event.layout}"]


def _interrupted(event: Interrupted) -> list[str]:
    return [f"run {event.run} was interrupted ({event.gpu_hours:.2f} GPU-hours): {event.layout}"]


def _advised(event: Advised) -> list[str]:
    told = [f"  seen in run {event.run}: {f.symptom}: {f.detail}" for f in event.findings[:3]]
    if event.problem:
        told.append(f"  advisor: the rules stand in: {brief(event.problem)}")
    if (supposed := event.hypothesis) is not None:
        told.append(
            f"  hypothesis {supposed.number} ({supposed.source}): {supposed.words}; predicted "
            f"{supposed.expected_percent:+.1f} % ({supposed.low_percent:+.1f} to "
            f"{supposed.high_percent:+.1f}) over run {supposed.base}: {supposed.layout}"
        )
    return told


def _judged(event: Judged) -> list[str]:
    return [f"hypothesis {event.hypothesis} {event.verdict} by run {event.run}: {event.words}"]


def _attributed(event: Attributed) -> list[str]:
    told = [f"gain over the reference, {event.total_percent:+.1f} %, by knob:"]
    return told + [f"  {contribution_line(part)}" for part in event.contributions]


def contribution_line(part: Contribution) -> str:
    """What one knob contributes, in words, with its provenance."""
    told = (
        f"{part.knob} ({part.before} -> {part.after}): {part.percent:+.1f} % "
        f"(+- {part.deviation_percent:.1f}), {part.provenance}"
    )
    if part.before_tokens is not None and part.after_tokens is not None:
        runs = ", ".join(map(str, part.runs))
        told += (
            f"; {number(part.before_tokens)} to {number(part.after_tokens)} tokens/s/GPU in runs "
            f"{runs}"
        )
    return told


def _stopped(event: Stopped) -> list[str]:
    return [f"search ends: {event.reason}"]


def _verified(event: Verified) -> list[str]:
    words = {"passed": "passes", "FAILED": "FAILS", "not run": "was not checked"}
    word = words[checks_word(event)]
    return [
        f"run {event.run} {word} against the reference: {event.layout}",
        *map(check_line, event.checks),
    ]


def checks_word(event: Verified) -> str:
    """`passed`, `FAILED`, or `not run` where no check ran, as on a virtual cluster."""
    if not event.passed:
        return "FAILED"
    ran = not event.checks or any(check.status == "passed" for check in event.checks)
    return "passed" if ran else "not run"


def check_line(check: CheckResult) -> str:
    """One correctness check with its status."""
    return f"  {check.status:8s} {check.name}" + (f": {check.detail}" if check.detail else "")


def _worth(event: Completed) -> str:
    """Price and MFU, where the hardware has them."""
    words = ""
    if event.usd_per_million_tokens is not None:
        words += f", ${number(event.usd_per_million_tokens, 3)} per million tokens"
    return words + (f", MFU {percent(event.mfu)}" if event.mfu is not None else "")


def _completed(event: Completed) -> list[str]:
    if event.winner is None:
        return [f"no winner: {event.problem}"]
    told = [
        f"winner ({event.status}): {event.winner}",
        f"  {number(event.tokens_per_s_per_gpu)} tokens/s/GPU, "
        f"step {seconds(event.step_time_s)} s, {gib(event.peak_gib)} GiB{_worth(event)}",
    ]
    for gain in event.gains:
        size = "no figure" if gain.percent is None else f"{gain.percent:+.1f} % tokens/s/GPU"
        told.append(f"  against {gain.over}: {size}")
    if event.recipe:
        told.append(f"  recipe: {event.recipe}")
    if event.problem:
        told.append(f"  not verified: {event.problem}")
    return [*told, "  " + spent(event.gpu_hours, event.status)]


_TELLERS: dict[str, Callable[[Any], list[str]]] = {
    "started": _started,
    "enumerated": _enumerated,
    "reference_chosen": _reference,
    "proposed": _proposed,
    "probed": _probed,
    "progress": _progress,
    "finished": _finished,
    "interrupted": _interrupted,
    "advised": _advised,
    "judged": _judged,
    "attributed": _attributed,
    "stopped": _stopped,
    "verified": _verified,
    "completed": _completed,
}
