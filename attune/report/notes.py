"""Notes in Markdown for optuna-dashboard: the verdict, and what came of each run."""

from __future__ import annotations

from attune.experiment.events import Finished
from attune.report.campaign import Report
from attune.report.tables import markdown
from attune.report.words import gib, number, seconds


def study_note(report: Report) -> str:
    """What the study is about, and who won."""
    history = report.history
    started, done = history.started, history.completed
    words = [f"experiment {report.experiment}: {history.state}", *report.remarks]
    if started:
        words.append(f"{started.model} on {started.count} {started.gpu}, {started.workload}")
        words.append(f"every figure is {started.provenance}")
    if done and done.winner:
        rate = number(done.tokens_per_s_per_gpu, 1)
        words.append(f"winner: {done.winner}, {rate} tokens/s/GPU ({done.status})")
    words.append(
        "The value of a trial is its step time in seconds; one that ran out of memory has the "
        "worst value so far and breaks the constraint."
    )
    return "\n\n".join(map(markdown, words)) + "\n"


def trial_note(run: Finished, why: str) -> str:
    """Layout, reason, outcome and figures of a run, by the names of `attune report`."""
    words = [
        f"run {run.run} ({run.purpose}): {run.layout}",
        *([f"why: {why}"] if why else []),
        f"outcome: {run.outcome}" + (f", {run.evidence}" if run.evidence else ""),
        f"step time {seconds(run.step_time_s)} s ({run.provenance}), predicted "
        f"{seconds(run.predicted.step_s)} s; {number(run.tokens_per_s_per_gpu, 1)} tokens/s/GPU; "
        f"peak {gib(run.peak_gib)} GiB",
    ]
    return "\n\n".join(map(markdown, words)) + "\n"
