"""A run as the advisor's rules look at it."""

from __future__ import annotations

from attune.estimate import estimate_step_time
from attune.estimate.columns import columns_of
from attune.experiment.events import Finished
from attune.layout import LayoutTable, parse_layout
from attune.search.advisor_rules import Observed
from attune.search.runs import Runs


def observe(runs: Runs, run: Finished) -> Observed | None:
    """A completed run as the rules look at it; None for any other."""
    if run.step_time_s is None:
        return None
    inputs, layout = runs.inputs, parse_layout(run.layout)
    table = LayoutTable.of([layout])
    about = (inputs.model, inputs.cluster, inputs.workload, table)
    time, columns = estimate_step_time(*about, inputs.known), columns_of(*about)
    result = runs.result(run.run)
    peaks = [0.0] * layout.pp
    for rank in result.ranks if result else ():
        peaks[rank.stage] = max(peaks[rank.stage], rank.reserved_gib)
    top_k = inputs.model.experts.top_k if inputs.model.experts else 0
    routed = float((columns.tokens / columns.shards * columns.etp)[0]) * top_k
    return Observed(
        layout=layout,
        shares={name: float(part[0] / time.total[0]) for name, part in time.parts.items()},
        stage_gib=tuple(peaks) if any(peaks) else (),
        limit_gib=runs.candidates.limit_gib,
        per_node=inputs.cluster.per_node,
        microbatches=int(columns.microbatches[0]),
        load=max(float(columns.awaited[0]) / routed, 1.0) if routed else 1.0,
    )
