"""Who wins: ranked, checked against the reference, run a second time, written as a recipe."""

from __future__ import annotations

from collections.abc import Generator

from attune.counts import active_parameters, mfu, usd_per_million_tokens
from attune.experiment.events import (
    Attributed,
    CheckResult,
    Completed,
    Event,
    Finished,
    Gain,
    Stopped,
    Verified,
)
from attune.layout import parse_layout, write_layout
from attune.search.advisor_verdicts import verdict_notes
from attune.search.attribution import attribute, attribution_notes
from attune.search.contenders import Contender, contenders
from attune.search.notes import gain_notes
from attune.search.progress import last
from attune.search.recipe_writer import write_recipe
from attune.search.runs import Runs
from attune.verify import Check, Verification, verify

Events = Generator[Event, None, None]

MOST_CONTENDERS = 3
"""Second runs of different layouts before the fastest confirmed one wins."""
UNCONFIRMED = Stopped(reason="no GPU-hours are left to run the winner again")


def crown(runs: Runs) -> Events:
    """Checks and confirms the leader until one holds, and completes the campaign.

    A leader that is refused, or that its second run shows to be slower, makes room for the next.
    """
    while leader := _leader(runs):
        verification = _checks(runs, leader.arm)
        if not verification.failed and leader.second is None:
            if leader.first.gpu_hours <= runs.hours_left():
                yield from _run_again(runs, leader)
                continue
            if not _is_recorded(runs, UNCONFIRMED):
                yield runs.record(UNCONFIRMED)
        verified = _verified(leader.arm, verification)
        if not _is_recorded(runs, verified):
            yield runs.record(verified)
        if not verification.failed:
            yield from attribute(runs, leader.arm)
            yield runs.record(_completed(runs, leader.arm, leader.first, verification))
            return
    yield runs.record(_without_winner(runs))


def _leader(runs: Runs) -> Contender | None:
    """The fastest that may win; after enough second runs, the fastest that had one."""
    ranked = contenders(runs.standing)
    confirmed = [contender for contender in ranked if contender.second]
    pool = confirmed if len(confirmed) >= MOST_CONTENDERS else ranked
    return pool[0] if pool else None


def _run_again(runs: Runs, leader: Contender) -> Events:
    row = runs.candidates.find(parse_layout(leader.first.layout))
    assert row is not None, "a contender is a candidate"
    why = f"run {leader.first.run}, the fastest, once more"
    yield from runs.run(row, "confirmation", why)


def _is_recorded(runs: Runs, event: Event) -> bool:
    """Whether the journal has `event` already, from a process that was killed after it."""
    return event in runs.standing.events


def _checks(runs: Runs, arm: Finished) -> Verification:
    """Every check of `arm` against the reference arm's run."""
    reference = runs.standing.reference
    if reference is None:
        return _unproven(arm, "no reference arm could run on this cluster")
    if reference.run == arm.run:
        return _unproven(arm, "this is the reference arm's own run, and no second one was made")
    result, base = runs.result(arm.run), runs.result(reference.run)
    if result is None or base is None:
        lost = arm.run if result is None else reference.run
        return _unproven(arm, f"trials/{lost}/result.json is missing, and its curve with it")
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
    first: Finished,
    verification: Verification,
    problem: str = "",
) -> Completed:
    """The last event, with verification and recipe written before it.

    `arm` is the run that is published, `first` the run of its layout that others are held against.
    """
    runs.experiment.write_json("verification.json", verification)
    gains = _gains(runs, arm)
    notes = gain_notes(runs.standing, first, gains)
    attributed = last(runs.standing.events, Attributed)
    if isinstance(attributed, Attributed) and attributed.winner == arm.layout:
        notes += attribution_notes(attributed)
    notes += verdict_notes(runs.standing)
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
    after = runs.standing.tokens_per_s_per_gpu(arm.layout)
    percent = 100 * (after / before - 1) if before and after else None
    if layout == arm.layout:
        percent = 0.0  # Two runs of one layout differ by noise, which is no gain.
    return Gain(over=over, layout=layout, tokens_per_s_per_gpu=before, percent=percent)


def _without_winner(runs: Runs) -> Completed:
    """The last event when nothing completed, or every contender was refused."""
    if not any(run.outcome == "completed" for run in runs.standing.runs):
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
        status=runs.launcher.provenance,
        gains=(),
        recipe=None,
        gpu_hours=runs.standing.gpu_hours,
        problem=problem,
    )
