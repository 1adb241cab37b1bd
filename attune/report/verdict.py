"""What a report says first: who won, by how much, and how far to trust it."""

from __future__ import annotations

from collections.abc import Iterator

from attune.experiment.events import Completed, Finished
from attune.report.arms import ExperimentReport
from attune.report.lines import checks_word, simulated_notice
from attune.report.words import gib, number, percent, seconds, spent

Rows = tuple[tuple[str, ...], ...]


def headline(report: ExperimentReport) -> str:
    """The verdict in one line."""
    history = report.history
    done, started = history.completed, history.started
    what = f"{started.model} on {started.count} {started.gpu}" if started else report.experiment
    if done is None:
        return f"{what}: {history.state}, no verdict yet"
    if done.winner is None:
        return f"{what}: no winner"
    gain = next((g for g in done.gains if g.over == "reference" and g.percent is not None), None)
    against = f", {gain.percent:+.1f} % against the reference" if gain else ""
    rate = f"{number(done.tokens_per_s_per_gpu, 1)} tokens/s/GPU"
    return f"{what}: {rate}{against} ({done.status})"


def notice(report: ExperimentReport) -> str:
    """What lies behind figures of a virtual cluster; empty on hardware."""
    started = report.history.started
    return simulated_notice(started) if started else ""


def facts(report: ExperimentReport) -> Rows:
    """Names and values that stand under the verdict."""
    return tuple(_facts(report))


def _facts(report: ExperimentReport) -> Iterator[tuple[str, str]]:
    history = report.history
    done, started = history.completed, history.started
    yield "experiment", f"{report.experiment}, {history.state}"
    if started:
        yield "workload", started.workload
        yield "launcher", f"{started.launcher} ({started.launcher_reason})"
    if done and done.winner:
        yield from _winner(done)
    if history.reference:
        yield "reference", f"{history.reference.layout} ({history.reference.source})"
    for verified in history.verified:
        yield (
            f"checks of run {verified.run}",
            checks_word(verified)
            + "".join(f"; {check.name}: {check.status}" for check in verified.checks),
        )
    if history.funnel:
        f = history.funnel
        yield (
            "search space",
            f"{f.space}: {f.drawn:,} drawn, {f.legal:,} legal, {f.fitting:,} predicted to fit, "
            f"{f.candidates:,} candidates",
        )
    yield from _cost(report)
    if history.stopped:
        yield "search ended", history.stopped.reason


def _winner(done: Completed) -> Iterator[tuple[str, str]]:
    yield f"winner ({done.status})", done.winner or ""
    yield "step time", f"{seconds(done.step_time_s)} s"
    yield "peak memory", f"{gib(done.peak_gib)} GiB"
    if done.usd_per_million_tokens is not None:
        yield "$ per 1M tokens", number(done.usd_per_million_tokens, 3)
    if done.mfu is not None:
        yield "MFU", percent(done.mfu)
    for gain in done.gains:
        size = "no figure" if gain.percent is None else f"{gain.percent:+.1f} % tokens/s/GPU"
        yield f"against the {gain.over}", f"{size} ({gain.layout})"
    if done.problem:
        yield "problem", done.problem


def _cost(report: ExperimentReport) -> Iterator[tuple[str, str]]:
    history = report.history
    provenance = history.started.provenance if history.started else "measured"
    words = f"{spent(history.gpu_hours, provenance)}, in {len(history.runs)} runs"
    if provenance != "predicted" and report.usd_per_gpu_hour:
        words += f", ${history.gpu_hours * report.usd_per_gpu_hour:,.2f} at list price"
    yield "cost of the campaign", words


def run_rows(report: ExperimentReport) -> tuple[tuple[str, ...], Rows]:
    """Heading and rows of the table of all runs."""
    head = ("run", "purpose", "outcome", "tokens/s/GPU", "step s", "GiB", "layout", "why")
    rows = tuple(_run(run, report) for run in report.history.runs)
    cut = tuple(
        (str(run.run), "-", "interrupted", "-", "-", "-", run.layout, "attune was ended")
        for run in report.history.interrupted
    )
    return head, rows + cut


def _run(run: Finished, report: ExperimentReport) -> tuple[str, ...]:
    best = " (best)" if run == report.history.best else ""
    why = report.history.reason(run.run)
    if run.outcome != "completed":
        told = (run.evidence or run.log_class or "no evidence").rstrip(".")
        why = f"{told}. {run.advice}".strip()
    return (
        str(run.run),
        run.purpose,
        run.outcome.replace("_", " ") + best,
        number(run.tokens_per_s_per_gpu, 1),
        seconds(run.step_time_s),
        gib(run.peak_gib),
        run.layout,
        why,
    )
