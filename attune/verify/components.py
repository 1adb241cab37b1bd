"""Which component tests a layout needs, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from attune.catalog.components import Component, load_components
from attune.layout import Layout
from attune.recipe.schema import Check
from attune.trial.worker.component_config import ComponentResult
from attune.workload import Workload

PREFIX = "component."


def components_of(layout: Layout, workload: Workload, *, experts: bool) -> list[Component]:
    """The component tests of the knobs that this layout turns."""
    turned = {
        "optimizer_offload": layout.optimizer_offload > 0,
        "precision_aware_optimizer": layout.precision_aware_optimizer,
        "fp8": workload.precision == "fp8",
        "bf16_gradients": workload.gradient_precision == "bf16",
        "recompute": layout.recompute != "none",
        "dispatcher": experts and layout.ep > 1 and layout.dispatcher != "flex",
        "flex_dispatcher": experts and layout.dispatcher == "flex",
        "context_parallel": layout.cp > 1,
    }
    return [one for one in load_components() if turned.get(one.id, False)]


def component_checks(
    layout: Layout, workload: Workload, *, experts: bool, results: Sequence[Check] = ()
) -> tuple[Check, ...]:
    """One check for each component test of this layout: its result, or that it has not run.

    A test is needed whenever the layout turns a knob that changes arithmetic, even if the
    reference turns it too: two arms with one fault agree with each other. A knob that only
    orders sums otherwise is judged by the curves, and its test is listed without being needed.
    """
    ran = {check.name: check for check in results}
    return tuple(
        ran.get(PREFIX + one.id, _not_run(one))
        for one in components_of(layout, workload, experts=experts)
    )


def check_of(result: ComponentResult, component: Component, gpu: str, day: date) -> Check:
    """The check of a component test that ran, on the device it is claimed for or on another."""
    status, detail = result.status, result.detail
    if status == "passed" and (gpu == "cpu") != (result.device == "cpu"):
        # What a CPU shows at a reduced shape says little of a GPU's kernels.
        status, detail = "not run", f"passed on {result.device} alone, and {gpu} is asked: {detail}"
    return Check(
        name=PREFIX + result.id,
        status=status,
        detail=detail,
        values={
            "shape": result.shape,
            "gpu": result.device if result.device == "cpu" else gpu,
            "date": day.isoformat(),
            "bound": result.bound,
            "value": result.value,
            "control": result.control,
        },
        needed=component.changes_arithmetic,
    )


def _not_run(one: Component) -> Check:
    place = "" if one.on_cpu else ", which needs CUDA,"
    return Check(
        name=PREFIX + one.id,
        status="not run",
        detail=f"the component test of {one.knob}{place} has not run at the model's shape; "
        "`attune verify components` runs it",
        needed=one.changes_arithmetic,
    )
