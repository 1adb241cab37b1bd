"""`attune tune --count 64,128,256`: a campaign for each count, compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import inf

from attune.errors import AttuneError, NothingFoundError
from attune.experiment import Experiment, Inputs
from attune.experiment.events import Completed
from attune.report.objectives import Comparison, CountRow
from attune.search.front import not_beaten
from attune.verbs.tune import Campaign, TuneRequest, name_experiment, tune

_MOST_COUNTS = 16
_LATER = {"table_digest", "versions", "launcher_reason", "space", "calibration"}
"""Inputs that may differ between the first time and a later one of the same question."""


def read_counts(words: str) -> tuple[int, ...]:
    """GPU counts from words such as `128` or `64,128,256`, the smallest first.

    Raises:
        AttuneError: not whole positive numbers, one twice, or too many.
    """
    parts = [word.strip() for word in words.split(",")] if words.strip() else []
    if not all(part.isascii() and part.isdigit() and 0 < int(part) < 2**31 for part in parts):
        raise AttuneError(f"--count takes numbers of GPUs, such as 128 or 64,128, not `{words}`")
    counts = tuple(sorted(int(part) for part in parts))
    if len(set(counts)) < len(counts) or len(counts) > _MOST_COUNTS:
        raise AttuneError(f"--count takes up to {_MOST_COUNTS} different counts, not `{words}`")
    return counts


def tune_counts(request: TuneRequest, counts: Sequence[int]) -> tuple[Campaign, ...]:
    """One campaign for each count; those that exist already under the name go on.

    Raises:
        AttuneError: as `tune`, for any of the counts, before anything is spent.
    """
    if request.resume:
        raise AttuneError("--resume goes on with one experiment; leave out --count")
    stem = request.name
    if stem is None:
        asked = tune(replace(request, count=counts[0])).inputs
        stem = name_experiment(asked.model.id, asked.cluster.gpu.id, "counts")
    return tuple(_campaign(request, count, f"{stem}-{count}") for count in counts)


def _campaign(request: TuneRequest, count: int, name: str) -> Campaign:
    asked = tune(replace(request, count=count, name=name))
    try:
        found = Experiment.open(name)
    except AttuneError:
        return asked
    if _question(found.inputs()) != _question(asked.inputs):
        raise AttuneError(
            f"experiment `{name}` exists and was asked something else; give another "
            "--experiment-name, or the same arguments to go on"
        )
    return tune(TuneRequest(resume=name, calibration=request.calibration))


def _question(inputs: Inputs) -> dict[str, object]:
    """What decides whether two experiments are the same campaign."""
    return inputs.model_dump(exclude=_LATER)


def run_counts(campaigns: Sequence[Campaign], play: Callable[[Campaign], object]) -> Comparison:
    """Plays each campaign with `play` (which draws its events) and compares the winners."""
    rows = []
    for campaign in campaigns:
        problem = ""
        try:
            play(campaign)
        except NothingFoundError as error:
            problem = str(error)
        rows.append(_row(campaign, problem))
    return compare(campaigns[0].inputs.objective, rows)


def compare(objective: str, rows: Iterable[CountRow]) -> Comparison:
    """Marks what nothing beats, and finds the best by the objective."""
    known = list(rows)
    speeds = [(row.tokens_per_s_per_gpu or 0.0, _total(row)) for row in known]
    front = set(not_beaten(speeds))
    marked = tuple(
        replace(row, front=i in front and row.layout is not None) for i, row in enumerate(known)
    )
    won = [row for row in marked if row.layout is not None]
    best = min(won, key=lambda row: _value(row, objective), default=None)
    return Comparison(objective=objective, rows=marked, best=best.count if best else None)


def _total(row: CountRow) -> float:
    return (row.tokens_per_s_per_gpu or 0.0) * row.count


def _value(row: CountRow, objective: str) -> float:
    """What is to be as small as possible."""
    if objective == "time-to-tokens":
        return inf if row.hours_per_billion_tokens is None else row.hours_per_billion_tokens
    # The price of a GPU is the same on every count, so cost and throughput put them alike.
    return -(row.tokens_per_s_per_gpu or 0.0)


def _row(campaign: Campaign, problem: str) -> CountRow:
    count, done = campaign.inputs.cluster.count, None
    try:
        events = Experiment.open(campaign.experiment).events()
        done = next((e for e in reversed(events) if isinstance(e, Completed)), None)
    except AttuneError as error:
        problem = problem or str(error)
    rate = done.tokens_per_s_per_gpu if done else None
    return CountRow(
        count=count,
        experiment=campaign.experiment,
        layout=done.winner if done else None,
        tokens_per_s_per_gpu=rate,
        usd_per_million_tokens=done.usd_per_million_tokens if done else None,
        hours_per_billion_tokens=1e9 / (rate * count * 3600) if rate else None,
        peak_gib=done.peak_gib if done else None,
        provenance=done.status if done else "",
        front=False,
        problem=problem or (done.problem if done else "not finished"),
    )
