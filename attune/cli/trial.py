"""`attune trial`: run one layout for a few steps."""

from __future__ import annotations

from typing import Annotated

import typer

from attune.cli.options import (
    AsJson,
    CalibrationFile,
    Checkout,
    ClusterFile,
    Count,
    FrameworkName,
    GlobalBatch,
    GpuName,
    LauncherName,
    LauncherOption,
    LayoutText,
    ModelName,
    Output,
    PrecisionName,
    Rows,
    RowTokens,
    Steps,
    TimeLimit,
    VirtualName,
    VirtualSeed,
    WorkloadFile,
    Yes,
    pairs,
)


def trial(
    model: ModelName,
    gpu: GpuName,
    count: Count,
    layout: LayoutText,
    cluster: ClusterFile = None,
    workload: WorkloadFile = None,
    row_tokens: RowTokens = None,
    global_batch: GlobalBatch = None,
    precision: PrecisionName = None,
    steps: Steps = None,
    rows: Rows = None,
    framework: FrameworkName = "megatron-core",
    checkout: Checkout = None,
    launcher: LauncherName = "auto",
    launcher_option: LauncherOption = None,
    virtual: VirtualName = "near",
    seed: VirtualSeed = 0,
    time_limit: TimeLimit = 1800.0,
    output: Output = None,
    calibration: CalibrationFile = None,
    parity: Annotated[
        bool, typer.Option("--parity", help="Write norms of every tensor after steps 1 and 2.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Run one layout for a few steps.

    Prints the outcome, step time, throughput and memory per rank.

    Example: attune trial -m tiny-moe -g cpu -n 4 -l "tp=2 ep=2"
    """
    from attune.cli.consent import ask
    from attune.cli.output import console, show
    from attune.report.trial import draw_trial, step_line
    from attune.report.words import say
    from attune.trial.job import Virtual
    from attune.trial.setup import read_setup
    from attune.verbs.explain import read_layout
    from attune.verbs.target import find_target
    from attune.verbs.trial import find_launcher, run_trial

    changes = {
        "row_tokens": row_tokens,
        "global_batch": global_batch,
        "precision": precision,
        "steps": steps,
        "rows": rows,
    }
    target = find_target(model, gpu, count, cluster=cluster, workload=workload, changes=changes)
    trainer, setup = read_setup(framework, checkout=checkout)
    chosen = find_launcher(target, launcher, pairs(launcher_option))
    if not chosen.simulated and target.cluster.gpu.usd_per_gpu_hour and not yes:
        ask(f"Run {target.workload.steps} steps of {target.words} ({chosen.name})?")
    told = console()
    run = run_trial(
        target,
        read_layout(layout),
        launcher=chosen,
        framework=trainer,
        setup=setup,
        directory=output,
        virtual=Virtual(kind=virtual, seed=seed),
        limit_s=time_limit,
        parity=parity,
        watch=None if as_json else lambda step: say(told, step_line(step, target.workload.steps)),
        calibration=calibration,
    )
    show(run, draw_trial, as_json)
    if not run.completed:
        raise typer.Exit(1)
