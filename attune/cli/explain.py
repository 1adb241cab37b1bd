"""`attune explain`: what a layout means, what is wrong with it, what it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attune.cli.options import (
    AsJson,
    ClusterFile,
    FrameworkName,
    GlobalBatch,
    PrecisionName,
    RowTokens,
    WorkloadFile,
)
from attune.errors import AttuneError


def explain(
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Name, YAML file or config.json.")
    ] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", "-g", help="Name or YAML file.")] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", help="Number of GPUs.")] = None,
    layout: Annotated[
        str | None,
        typer.Option("--layout", "-l", help='"tp=4 pp=16 ep=8", or a recipe file.'),
    ] = None,
    cluster: ClusterFile = None,
    workload: WorkloadFile = None,
    row_tokens: RowTokens = None,
    global_batch: GlobalBatch = None,
    precision: PrecisionName = None,
    framework: FrameworkName = "megatron-core",
    table: Annotated[
        Path | None, typer.Option("--csv", help="Judge every layout of this table instead.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where the judged table goes.")
    ] = None,
    parameters: Annotated[
        bool, typer.Option("--parameters", help="With --csv: count each rank's parameters too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Explain one layout, or judge a table of them; nothing runs.

    Derived sizes, every broken rule with its cure, memory and step time by part.

    Example: attune explain -m glm-4.5 -g h200 -n 128 -l "tp=4 pp=16 ep=8 first=5 last=3"
    """
    if table is not None:
        _judge(table, output, parameters, as_json)
        return
    if model is None or gpu is None or count is None or layout is None:
        raise AttuneError("explain needs --model, --gpu, --count and --layout, or --csv and -o")
    from attune.cli.output import show
    from attune.report.explanation import draw_explanation
    from attune.trial.setup import read_setup
    from attune.verbs.explain import explain as explain_layout
    from attune.verbs.explain import read_layout
    from attune.verbs.target import find_target

    changes = {"row_tokens": row_tokens, "global_batch": global_batch, "precision": precision}
    target = find_target(model, gpu, count, cluster=cluster, workload=workload, changes=changes)
    name, setup = read_setup(framework)
    found = explain_layout(target, read_layout(layout), name, setup.version)
    show(found, draw_explanation, as_json)
    if not found.legal:
        raise typer.Exit(1)


def _judge(table: Path, output: Path | None, parameters: bool, as_json: bool) -> None:
    from attune.cli.output import show
    from attune.report.judged import draw_judged
    from attune.verbs.judge import judge_table

    if output is None:
        raise AttuneError("explain --csv needs -o OUT for the judged table")
    show(judge_table(table, output, parameters=parameters), draw_judged, as_json)
