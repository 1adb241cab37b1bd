"""`attune tune`: from a model, a GPU and a count to a recipe."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from attune.cli.options import (
    AsJson,
    CalibrationFile,
    Checkout,
    ClusterFile,
    FrameworkName,
    GlobalBatch,
    LauncherName,
    LauncherOption,
    PrecisionName,
    Rows,
    RowTokens,
    SpaceName,
    Steps,
    VirtualName,
    WorkloadFile,
    Yes,
    pairs,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console

    from attune.experiment.events import Event
    from attune.report.history import History
    from attune.verbs.tune import Campaign

_MODEL = "Name (`attune models`), YAML file or config.json; not with --resume."
_GPU = "Name (`attune gpus`) or YAML file; not with --resume."


def tune(
    model: Annotated[str, typer.Option("--model", "-m", help=_MODEL, show_default=False)] = "",
    gpu: Annotated[str, typer.Option("--gpu", "-g", help=_GPU, show_default=False)] = "",
    count: Annotated[
        str,
        typer.Option(
            "--count",
            "-n",
            help="Number of GPUs; several, as 64,128, are tuned one by one and compared.",
            show_default=False,
        ),
    ] = "",
    cluster: ClusterFile = None,
    workload: WorkloadFile = None,
    row_tokens: RowTokens = None,
    global_batch: GlobalBatch = None,
    precision: PrecisionName = None,
    steps: Steps = None,
    rows: Rows = None,
    space: SpaceName = None,
    fix: Annotated[
        list[str] | None,
        typer.Option("--fix", help="Hold a dimension at one value, as tp=4; may be repeated."),
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option("--reference", help="Recipe of the trusted layout [the model's own]."),
    ] = None,
    warm_start: Annotated[
        str | None,
        typer.Option("--warm-start", help="Recipe file or experiment whose winner is tried first."),
    ] = None,
    objective: Annotated[
        Literal["throughput", "cost", "time-to-tokens"],
        typer.Option("--objective", help="What counts between several --count."),
    ] = "throughput",
    project: Annotated[
        int | None,
        typer.Option(
            "--project", help="GPUs that the winner is meant for, when it is tuned on fewer."
        ),
    ] = None,
    max_memory: Annotated[
        float,
        typer.Option("--max-memory", help="Share of the GPU's memory that may be used."),
    ] = 1.0,
    framework: FrameworkName = "megatron-core",
    checkout: Checkout = None,
    launcher: LauncherName = "auto",
    launcher_option: LauncherOption = None,
    virtual: VirtualName = "near",
    probes: Annotated[
        bool,
        typer.Option(
            "--probes/--no-probes", help="Probe memory on a part of the cluster where it pays."
        ),
    ] = True,
    advisor: Annotated[
        Literal["rules", "none", "llm"],
        typer.Option("--advisor", help="Who reads each run and says what to test next."),
    ] = "rules",
    attribution_trials: Annotated[
        int,
        typer.Option(
            "--attribution-trials", min=0, help="Runs for measuring where the gain comes from."
        ),
    ] = 0,
    trials: Annotated[int, typer.Option(min=1, help="Candidates to try at most.")] = 12,
    gpu_hours: Annotated[
        float | None, typer.Option("--gpu-hours", help="Hard limit on the GPU-hours of all runs.")
    ] = None,
    usd: Annotated[
        float | None,
        typer.Option("--usd", help="Hard limit on the cost of all runs, at the GPU's price."),
    ] = None,
    min_gain: Annotated[
        float,
        typer.Option("--min-gain", min=0, help="Stop when the next trial promises a smaller gain."),
    ] = 0.005,
    seed: Annotated[int, typer.Option(help="Seed of search and virtual cluster.")] = 0,
    calibration: CalibrationFile = None,
    experiment_name: Annotated[
        str | None, typer.Option("--experiment-name", help="Id of the new experiment.")
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option("--resume", help="Go on with this experiment (`attune experiments`)."),
    ] = None,
    worker_option: Annotated[list[str] | None, typer.Option(hidden=True)] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would run; run nothing.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Find the fastest layout and write its recipe.

    Runs short trials on the hardware, and checks that the fast layout trains the same model.

    Example: attune tune -m glm-4.5 -g h200 -n 128
    """
    from attune.cli.consent import ask
    from attune.cli.output import console, json_text
    from attune.report.objectives import draw_comparison
    from attune.report.plain import plain
    from attune.verbs.tune import TuneRequest
    from attune.verbs.tune import tune as prepare
    from attune.verbs.tune_counts import read_counts, run_counts, tune_counts

    counts = read_counts(count)
    request = TuneRequest(
        model=model,
        gpu=gpu,
        count=counts[0] if counts else 0,
        cluster=cluster,
        workload=workload,
        workload_fields={
            "row_tokens": row_tokens,
            "global_batch": global_batch,
            "precision": precision,
            "steps": steps,
            "rows": rows,
        },
        space=space,
        fix=fix or (),
        reference=reference,
        warm_start=warm_start,
        objective=objective,
        project=project,
        max_memory=max_memory,
        framework=framework,
        checkout=checkout,
        launcher=launcher,
        virtual=virtual,
        probes=probes,
        advisor=advisor,
        attribution_trials=attribution_trials,
        trials=trials,
        gpu_hours=gpu_hours,
        usd=usd,
        min_gain=min_gain,
        seed=seed,
        calibration=calibration,
        name=experiment_name,
        resume=resume,
        launcher_options=pairs(launcher_option),
        worker_options=pairs(worker_option),
    )
    campaigns = tune_counts(request, counts) if len(counts) > 1 else (prepare(request),)
    if dry_run:
        for campaign in campaigns:
            _tell_plan(campaign)
        return
    if any(campaign.spends for campaign in campaigns) and not yes:
        ask("\n".join(map(_question, campaigns)))
    play = _print if as_json else _play
    if len(campaigns) == 1:
        if play(campaigns[0]) != "done":
            raise typer.Exit(1)
        return
    comparison = run_counts(campaigns, play)
    if as_json:
        print(json_text({"kind": "comparison", **plain(comparison)}))
    else:
        draw_comparison(comparison, console())
    if comparison.best is None:
        raise typer.Exit(1)


def _print(campaign: Campaign) -> str:
    """Prints each event of a campaign as one line of JSON; the state that it ends in."""
    from attune.cli.output import json_text
    from attune.report.history import history_of

    kept = []
    with closing(campaign.events()) as events:
        for event in events:
            print(json_text(event), flush=True)
            kept.append(event)
    return history_of(kept).state


def _play(campaign: Campaign) -> str:
    """Draws a campaign while it runs; the state that it ends in."""
    from attune.cli.output import console
    from attune.report.live import draw_events
    from attune.verbs.report import history_so_far

    before = history_so_far(campaign.experiment) if campaign.resumed else None
    screen = console()
    try:
        # Closed on every way out, so that no run is left where drawing is interrupted.
        with closing(campaign.events()) as events:
            history = draw_events(_with_answers(campaign, events, before, screen), screen, before)
    except KeyboardInterrupt:
        typer.echo(f"go on with: attune tune --resume {campaign.experiment}", err=True)
        raise
    return history.state


def _with_answers(
    campaign: Campaign, events: Iterable[Event], before: History | None, screen: Console
) -> Iterator[Event]:
    """The campaign's events; before the last, what it says beside its winner is drawn."""
    from attune.experiment.events import Completed
    from attune.report.history import History
    from attune.report.objectives import draw_front, draw_projection
    from attune.verbs.tune_answers import find_front, find_projection

    history = before or History()
    for event in events:
        history = history.after(event)
        if isinstance(event, Completed):
            draw_front(find_front(campaign.inputs, history.runs), screen)
            if projection := find_projection(campaign.inputs, history.runs, event):
                draw_projection(projection, screen)
        yield event


def _question(campaign: Campaign) -> str:
    inputs = campaign.inputs
    budget = f"up to {inputs.trials} trials of {inputs.workload.steps} steps"
    if inputs.gpu_hours is not None:
        budget += f", at most {inputs.gpu_hours:g} GPU-hours"
    cluster = inputs.cluster
    return (
        f"Run {budget}, with a reference and a confirmation, of {inputs.model.name} on "
        f"{cluster.count} {cluster.gpu.name} ({inputs.launcher})?"
    )


def _tell_plan(campaign: Campaign) -> None:
    from attune.cli.output import console, show
    from attune.report.plan import draw_plan
    from attune.report.spending import draw_spending
    from attune.report.words import say
    from attune.verbs.plan import plan
    from attune.verbs.spending import find_spending
    from attune.verbs.target import Target

    inputs = campaign.inputs
    target = Target(model=inputs.model, cluster=inputs.cluster, workload=inputs.workload)
    planned = plan(target, space=inputs.space)
    show(planned, draw_plan, as_json=False)
    if campaign.spends:
        draw_spending(find_spending(inputs, planned.best[0]), console())
    say(console(), f"launcher {inputs.launcher}: {inputs.launcher_reason}")
    say(console(), f"dry run of experiment {inputs.experiment}: nothing ran, nothing was written")
