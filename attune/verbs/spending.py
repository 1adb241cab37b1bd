"""What a campaign would spend, before anything is spent."""

from __future__ import annotations

import sys

from attune.errors import AttuneError, LayoutError
from attune.experiment import Inputs
from attune.layout import parse_layout
from attune.report.plan import Suggestion
from attune.report.spending import Spending
from attune.trial.frameworks import load_framework
from attune.trial.job import Job
from attune.trial.script import shell_script
from attune.trial.stand_in import start_up_s

_BESIDE = 2
"""Runs beside the trials: the reference arm and the confirmation of the winner."""


def find_spending(inputs: Inputs, first: Suggestion) -> Spending:
    """Runs, nodes, hours, dollars and the command of a campaign; all predicted.

    Every run is counted as long as that of the estimator's first choice with the start-up of
    published runs: slower layouts take longer, pruned and failed ones less.

    Args:
        inputs: of the campaign.
        first: the layout that the estimator would try first.
    """
    cluster = inputs.cluster
    run_s = start_up_s(cluster.count) + inputs.workload.steps * first.step_s
    runs = inputs.trials + _BESIDE
    whole = runs * run_s * cluster.count / 3600
    limit = inputs.gpu_hours
    gpu_hours = whole if limit is None else min(whole, limit)
    return Spending(
        runs=runs,
        nodes=cluster.nodes,
        per_node=cluster.per_node,
        launcher=inputs.launcher,
        run_s=run_s,
        hours=gpu_hours / cluster.count,
        gpu_hours=gpu_hours,
        limit_gpu_hours=limit,
        usd=gpu_hours * cluster.gpu.usd_per_gpu_hour,
        command=_command(inputs, first),
    )


def _command(inputs: Inputs, first: Suggestion) -> str:
    job = Job(
        model=inputs.model,
        cluster=inputs.cluster,
        workload=inputs.workload,
        layout=parse_layout(first.layout),
        framework=inputs.framework,
        setup=inputs.setup,
    )
    try:
        command = load_framework(inputs.framework).prepare(job)
    except (AttuneError, LayoutError) as error:
        return f"# no command: {error}"
    return shell_script(command, sys.executable)
