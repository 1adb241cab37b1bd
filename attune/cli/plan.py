"""`attune plan`: just tell me the layout."""

from __future__ import annotations

from attune.cli.options import (
    AsJson,
    ClusterFile,
    Count,
    FrameworkName,
    GlobalBatch,
    GpuName,
    ModelName,
    PrecisionName,
    Rows,
    RowTokens,
    SpaceName,
    Steps,
    WorkloadFile,
)


def plan(
    model: ModelName,
    gpu: GpuName,
    count: Count,
    cluster: ClusterFile = None,
    workload: WorkloadFile = None,
    row_tokens: RowTokens = None,
    global_batch: GlobalBatch = None,
    precision: PrecisionName = None,
    steps: Steps = None,
    rows: Rows = None,
    space: SpaceName = None,
    framework: FrameworkName = "megatron-core",
    as_json: AsJson = False,
) -> None:
    """List the ten layouts predicted fastest; nothing runs.

    Draws the search space, keeps what is legal and fits, and ranks by speed times P(fits).

    Example: attune plan -m glm-4.5 -g h200 -n 128
    """
    from attune.cli.output import show
    from attune.report.plan import draw_plan
    from attune.trial.setup import read_setup
    from attune.verbs.plan import plan as find_plan
    from attune.verbs.target import find_target

    changes = {
        "row_tokens": row_tokens,
        "global_batch": global_batch,
        "precision": precision,
        "steps": steps,
        "rows": rows,
    }
    target = find_target(model, gpu, count, cluster=cluster, workload=workload, changes=changes)
    name, setup = read_setup(framework)
    found = find_plan(target, space=space, framework=name, version=setup.version)
    show(found, draw_plan, as_json)
