"""A plan: the funnel from the search space to the best predicted layouts."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from attune.report.words import (
    badge,
    gib,
    grid,
    number,
    percent,
    say,
    say_marked,
    say_whole,
    seconds,
)
from attune.trial.result import Provenance
from attune.workload import Workload

if TYPE_CHECKING:
    from rich.console import Console

_MOST_RULES = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Funnel:
    """How many layouts are left after each step."""

    drawn: int
    """Layouts that the search space states."""
    legal: int
    fitting: int
    """Legal layouts with P(fits) of at least one half."""
    broken: dict[str, int] = field(default_factory=dict)
    """Layouts refused, by the id of the first rule broken; the commonest first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Suggestion:
    """A layout with what the estimator says of it."""

    layout: str
    """One line, as `--layout` takes it."""
    label: str
    step_s: float
    low_s: float
    high_s: float
    """80 % interval of the step time."""
    tokens_per_s_per_gpu: float
    usd_per_million_tokens: float
    mfu: float
    """Share of the dense peak, 0 to 1."""
    reserved_gib: float
    """Memory that the allocator of the worst stage reserves."""
    peak_gib: float
    """Device memory of the worst stage."""
    limit_gib: float
    stage: int
    """The worst stage."""
    p_fits: float
    provenance: Provenance = "predicted"


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The layouts that the estimator would try first. Provenance: predicted."""

    model: str
    gpu: str
    count: int
    workload: Workload
    space: str
    funnel: Funnel
    best: tuple[Suggestion, ...]
    """Best first: by tokens/s/GPU times P(fits)."""
    asked_model: str = ""
    """What a command calls the model, where that is not its name: a path."""
    provenance: Provenance = "predicted"


def workload_words(workload: Workload) -> str:
    """`rows of 8,192 tokens, 128 rows a step, bf16`."""
    return (
        f"rows of {workload.row_tokens:,} tokens, {workload.global_batch:,} rows a step, "
        f"{workload.precision}"
    )


def draw_plan(plan: Plan, console: Console) -> None:
    """The funnel, the table of the best and their layouts, one copyable line each."""
    say(console, f"{plan.model} on {plan.count} {plan.gpu}: {workload_words(plan.workload)}")
    draw_funnel(plan.funnel, plan.space, console)
    limit = gib(plan.best[0].limit_gib)
    say_marked(
        console,
        f"\nBest {len(plan.best)}, {badge(plan.provenance)} (no trial ran), "
        "by tokens/s/GPU x P(fits);\n"
        f"GiB of the worst stage, limit {limit} GiB:",
    )
    console.print(_table(plan.best))
    for place, suggestion in enumerate(plan.best, start=1):
        say_whole(console, f"{place:2d}  {suggestion.layout}")
    asked = question(plan)
    say_whole(console, f"\nWhy these figures: attune explain {asked} -l '{plan.best[0].layout}'")
    say_whole(console, f"Try and prove them: attune tune {asked}")


def question(plan: Plan) -> str:
    """The options that ask the same again, where a name of the catalogue and flags can."""
    usual = Workload()
    model = shlex.quote(plan.asked_model or plan.model)
    words = f"-m {model} -g {shlex.quote(plan.gpu)} -n {plan.count}"
    for name in ("row_tokens", "global_batch", "precision"):
        if (value := getattr(plan.workload, name)) != getattr(usual, name):
            words += f" --{name.replace('_', '-')} {value}"
    return words


def draw_funnel(funnel: Funnel, space: str, console: Console) -> None:
    """Drawn, legal, fitting; then the rules that cut most."""
    say(
        console,
        f"search space {space}: {funnel.drawn:,} drawn, {funnel.legal:,} legal, "
        f"{funnel.fitting:,} predicted to fit",
    )
    rules = list(funnel.broken.items())
    if rules:
        table = grid(["refused by rule", "layouts"])
        for rule, count in rules[:_MOST_RULES]:
            table.add_row(rule, f"{count:,}")
        if rest := rules[_MOST_RULES:]:
            table.add_row(f"{len(rest)} more rules", f"{sum(n for _, n in rest):,}")
        console.print(table)


def _table(best: tuple[Suggestion, ...]) -> object:
    names = ("#", "DP", "tok/s/GPU", "step s", "80 % interval", "$/M tokens", "MFU", "GiB")
    table = grid([*names, "P(fits)"])
    for place, found in enumerate(best, start=1):
        table.add_row(
            str(place),
            _data_parallel(found.label),
            number(found.tokens_per_s_per_gpu),
            seconds(found.step_s),
            f"{seconds(found.low_s)} to {seconds(found.high_s)}",
            number(found.usd_per_million_tokens, 3),
            percent(found.mfu),
            gib(found.peak_gib),
            percent(found.p_fits, 0),
        )
    return table


def _data_parallel(label: str) -> str:
    """The one degree that the layout's own line leaves to follow, from its label."""
    return label.rpartition("DP")[2]
