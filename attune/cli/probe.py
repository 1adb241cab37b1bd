"""`attune probe memory|layers`: cheap measurements before dear trials."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from attune.cli.options import (
    AsJson,
    CalibrationFile,
    ClusterFile,
    Count,
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
    TimeLimit,
    VirtualName,
    VirtualSeed,
    WorkloadFile,
    Yes,
    pairs,
)

app = typer.Typer(
    help="Measure the memory of one rank, or the time of a few layers.", no_args_is_help=True
)


@app.command("memory")
def memory(
    model: ModelName,
    gpu: GpuName,
    count: Count,
    layout: LayoutText,
    rank: Annotated[
        str, typer.Option(help="worst, all-stages (one of each), or a rank's number.")
    ] = "worst",
    cluster: ClusterFile = None,
    workload: WorkloadFile = None,
    row_tokens: RowTokens = None,
    global_batch: GlobalBatch = None,
    precision: PrecisionName = None,
    rows: Rows = None,
    launcher: LauncherName = "auto",
    launcher_option: LauncherOption = None,
    virtual: VirtualName = "near",
    seed: VirtualSeed = 0,
    time_limit: TimeLimit = 900.0,
    output: Output = None,
    calibration: CalibrationFile = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Run one rank of a layout alone on one GPU; say whether it fits.

    The rank trains two steps with the tensors that it would have among all others. Prints its
    peaks beside the predicted ones, by part.

    Example: attune probe memory -m glm-4.5 -g h200 -n 128 -l "tp=4 pp=16 ep=8 first=5 last=3"
    """
    from attune.cli.consent import ask
    from attune.cli.output import console
    from attune.report.probe import draw_memory_probe, memory_probe_data
    from attune.trial.job import Virtual
    from attune.verbs.explain import read_layout
    from attune.verbs.probe_memory import one_gpu, probe_memory
    from attune.verbs.target import find_target
    from attune.verbs.trial import find_launcher

    changes = {
        "row_tokens": row_tokens,
        "global_batch": global_batch,
        "precision": precision,
        "rows": rows,
    }
    target = find_target(model, gpu, count, cluster=cluster, workload=workload, changes=changes)
    chosen = find_launcher(one_gpu(target), launcher, pairs(launcher_option))
    if not chosen.simulated and target.cluster.gpu.usd_per_gpu_hour and not yes:
        ask(f"Run two steps of one rank of {target.words} ({chosen.name})?")
    found = probe_memory(
        target,
        read_layout(layout),
        rank=rank,
        launcher=chosen,
        directory=output,
        virtual=Virtual(kind=virtual, seed=seed),
        limit_s=time_limit,
        calibration=calibration,
    )
    if as_json:
        print(json.dumps(memory_probe_data(found), indent=2, ensure_ascii=False))
    else:
        draw_memory_probe(found, console())
    if not found.fits:
        raise typer.Exit(1)


@app.command("layers")
def layers(
    model: ModelName,
    gpu: GpuName,
    count: Count,
    layout: LayoutText,
    cluster: ClusterFile = None,
    workload: WorkloadFile = None,
    row_tokens: RowTokens = None,
    precision: PrecisionName = None,
    global_batch: GlobalBatch = None,
    launcher: LauncherName = "auto",
    launcher_option: LauncherOption = None,
    virtual: VirtualName = "near",
    seed: VirtualSeed = 0,
    time_limit: TimeLimit = 600.0,
    output: Output = None,
    calibration: CalibrationFile = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Time a few layers of a layout on one node.

    Two layers with a dense MLP, two MoE layers and the head, at the layout's TP, CP, EP, rows per
    microbatch and recompute. What was measured replaces the estimator's own layer times from then
    on.

    Example: attune probe layers -m glm-4.5 -g h200 -n 128 -l "tp=4 pp=16 ep=8 first=5 last=3"
    """
    from attune.cli.consent import ask
    from attune.cli.output import show
    from attune.report.probe_layers import draw_layer_probe
    from attune.trial.job import Virtual
    from attune.verbs.explain import read_layout
    from attune.verbs.probe_layers import one_node, probe_layers
    from attune.verbs.target import find_target
    from attune.verbs.trial import find_launcher, refuse_illegal

    changes = {"row_tokens": row_tokens, "global_batch": global_batch, "precision": precision}
    target = find_target(model, gpu, count, cluster=cluster, workload=workload, changes=changes)
    asked = read_layout(layout)
    refuse_illegal(target, asked)
    node = one_node(target, asked)
    chosen = find_launcher(node, launcher, pairs(launcher_option))
    if not chosen.simulated and target.cluster.gpu.usd_per_gpu_hour and not yes:
        ask(f"Time layers of {target.model.name} on {node.cluster.count} GPUs ({chosen.name})?")
    found = probe_layers(
        target,
        asked,
        launcher=chosen,
        directory=output,
        virtual=Virtual(kind=virtual, seed=seed),
        limit_s=time_limit,
        calibration=calibration,
    )
    show(found, draw_layer_probe, as_json)
    if not found.completed:
        raise typer.Exit(1)
