"""Who wins: ranked, checked against the reference, run a second time, written as a recipe."""

from __future__ import annotations

from collections.abc import Generator

from attune.counts import active_parameters
from attune.counts.metrics import mfu, usd_per_million_tokens
from attune.experiment.events import (
    CheckResult,
    Completed,
    Event,
    Finished,
    Gain,
    Stopped,
    Verified,
)
from attune.layout import parse_layout, write_layout
from attune.search.notes import gain_notes
from attune.search.recipe_writer import write_recipe
from attune.search.runs import Runs
from attune.verify import Check, Verification, verify

Events = Generator[Event, None, None]

CLOSE_ENOUGH = 1.05
"""The second run may be this much slower than the first before the next best is asked."""
MOST_CONTENDERS = 3


def crown(runs: Runs) -> Events:
    """Checks and confirms the best candidate, or the next best, and completes the campaign."""
    contenders = _contenders(runs)
    for contender in contenders[:MOST_CONTENDERS]:
        checks = _checks(runs, contender)
        if checks.failed:
            yield runs.record(_verified(contender, checks))
            continue
        confirmed = yield from _confirm(runs, contender)
        if confirmed is None:
            continue
        arm = confirmed if confirmed.outcome == "completed" else contender
        checks = _checks(runs, arm)
        yield runs.record(_verified(arm, checks))
        if not checks.failed:
            yield runs.record(_completed(runs, arm, contender, checks))
            return
    yield runs.record(_without_winner(runs, contenders))


def _contenders(runs: Runs) -> list[Finished]:
    """Completed candidates and the reference itself, the fastest first."""
    standing = runs.standing
    arms = standing.completed("candidate")
    if standing.reference:
        arms.append(standing.reference)
    return sorted(arms, key=lambda r: r.step_time_s or float("inf"))


def _confirm(runs: Runs, contender: Finished) -> Generator[Event, None, Finished | None]:
    """The second run of the contender; None when it shows that the first flattered it.

    A run that the budget no longer holds is left out, and the first run stands.
    """
    row = runs.candidates.find(parse_layout(contender.layout))
    assert row is not None, "a contender is a candidate"
    done = [r for r in runs.standing.runs if _confirms(r, contender)]
    if not done:
        if contender.gpu_hours > runs.hours_left():
            yield runs.record(Stopped(reason="no GPU-hours are left to run the winner again"))
            return contender
        yield from runs.run(row, "confirmation", f"run {contender.run}, the fastest, once more")
        done = [r for r in runs.standing.runs if _confirms(r, contender)]
    again = done[-1]
    first = contender.step_time_s or float("inf")
    if again.outcome != "completed" or again.step_time_s is None:
        return None
    rivals = [r for r in _contenders(runs) if r.layout != contender.layout]
    slower = again.step_time_s > CLOSE_ENOUGH * first
    beaten = any((r.step_time_s or float("inf")) < again.step_time_s for r in rivals)
    return None if slower and beaten else again


def _confirms(run: Finished, contender: Finished) -> bool:
    return run.purpose == "confirmation" and run.layout == contender.layout


def _checks(runs: Runs, arm: Finished) -> Verification:
    """Every check of `arm` against the reference arm's run."""
    reference = runs.standing.reference
    result = runs.result(arm.run)
    base = runs.result(reference.run) if reference else None
    if reference is None or result is None or base is None:
        return _unproven(arm, "no reference arm could run on this cluster")
    if reference.run == arm.run:
        return _unproven(arm, "this is the reference arm's own run, and no second one was made")
    return verify(runs.job_of(arm), result, runs.job_of(reference), base)


def _unproven(arm: Finished, why: str) -> Verification:
    check = Check(name="megatron_bridge", status="not run", detail=why)
    return Verification(checks=(check,), provenance=arm.provenance)


def _verified(arm: Finished, verification: Verification) -> Verified:
    return Verified(
        run=arm.run,
        layout=arm.layout,
        passed=not verification.failed,
        checks=tuple(
            CheckResult(name=c.name, status=c.status, detail=c.detail) for c in verification.checks
        ),
    )


def _completed(
    runs: Runs,
    arm: Finished,
    contender: Finished,
    verification: Verification,
    problem: str = "",
) -> Completed:
    """The last event, with verification and recipe written before it."""
    runs.experiment.write_json("verification.json", verification)
    gains = _gains(runs, arm)
    notes = gain_notes(runs.standing, contender, gains)
    recipe = write_recipe(runs, arm, verification, gains, notes)
    gpu = runs.inputs.cluster.gpu
    tokens = arm.tokens_per_s_per_gpu or 0.0
    peak = gpu.peak_tflops.get(runs.inputs.workload.precision)
    price, priced = gpu.usd_per_gpu_hour, bool(tokens and gpu.usd_per_gpu_hour)
    active = active_parameters(runs.inputs.model)
    known = bool(peak) and gpu.architecture != "cpu"
    return Completed(
        winner=arm.layout,
        winner_run=arm.run,
        tokens_per_s_per_gpu=arm.tokens_per_s_per_gpu,
        step_time_s=arm.step_time_s,
        peak_gib=arm.peak_gib,
        usd_per_million_tokens=usd_per_million_tokens(tokens, price) if priced else None,
        mfu=mfu(tokens, active, peak) if peak and known else None,
        status=verification.provenance,
        gains=gains,
        recipe=recipe,
        gpu_hours=runs.standing.gpu_hours,
        problem=problem,
    )


def _gains(runs: Runs, arm: Finished) -> tuple[Gain, ...]:
    """The winner over the reference and over what the estimator alone would have picked."""
    first = write_layout(runs.candidates.table.row(runs.candidates.first_choice()))
    reference = runs.standing.reference
    return (
        _gain(runs, arm, "reference", reference.layout if reference else ""),
        _gain(runs, arm, "estimator's first choice", first),
    )


def _gain(runs: Runs, arm: Finished, over: str, layout: str) -> Gain:
    before = runs.standing.tokens_per_s_per_gpu(layout)
    after = arm.tokens_per_s_per_gpu
    percent = 100 * (after / before - 1) if before and after else None
    if layout == arm.layout:
        percent = 0.0  # Two runs of one layout differ by noise, which is no gain.
    return Gain(over=over, layout=layout, tokens_per_s_per_gpu=before, percent=percent)


def _without_winner(runs: Runs, contenders: list[Finished]) -> Completed:
    """The last event when nothing completed, or every contender was refused."""
    if not contenders:
        outcomes = sorted({r.outcome for r in runs.standing.runs})
        return _empty(runs, f"no run completed ({', '.join(outcomes) or 'none was started'})")
    refused = {e.run for e in runs.standing.events if isinstance(e, Verified) and not e.passed}
    arms = (run for run in runs.standing.runs if run.run in refused)
    arm = min(arms, key=lambda run: run.step_time_s or float("inf"), default=None)
    if arm is None:
        return _empty(runs, "no contender completed its second run")
    checks = _checks(runs, arm)
    failed = [c for c in checks.checks if c.status == "failed"]
    words = "; ".join(f"check `{c.name}` failed: {c.detail}" for c in failed)
    return _completed(runs, arm, arm, checks, words)


def _empty(runs: Runs, problem: str) -> Completed:
    return Completed(
        winner=None,
        winner_run=None,
        tokens_per_s_per_gpu=None,
        step_time_s=None,
        peak_gib=None,
        usd_per_million_tokens=None,
        mfu=None,
        status="predicted" if runs.launcher.provenance == "predicted" else "measured",
        gains=(),
        recipe=None,
        gpu_hours=runs.standing.gpu_hours,
        problem=problem,
    )
