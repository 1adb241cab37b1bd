"""Which component tests a layout needs, and what a result counts for."""

from __future__ import annotations

from datetime import date

from attune.catalog.components import load_components
from attune.layout import Layout
from attune.recipe.outcome import correctness_block
from attune.trial.worker.component_config import ComponentResult
from attune.verify import check_of, components_of
from attune.workload import Workload

DAY = date(2026, 1, 2)


def _result(**fields: object) -> ComponentResult:
    values = {
        "id": "recompute",
        "status": "passed",
        "shape": "one layer",
        "device": "cpu",
        "bound": 1e-6,
        "value": 0.0,
        "control": 0.1,
        "detail": "the layer ran twice",
    }
    return ComponentResult.model_validate(values | fields)


def _component(name: str):  # type: ignore[no-untyped-def]
    return next(one for one in load_components() if one.id == name)


def test_a_layout_needs_the_tests_of_the_knobs_that_it_turns() -> None:
    layout = Layout(cp=2, ep=2, recompute="full", optimizer_offload=0.9)
    names = [one.id for one in components_of(layout, Workload(), experts=True)]
    assert names == ["optimizer_offload", "recompute", "dispatcher", "context_parallel"]
    assert components_of(Layout(), Workload(), experts=False) == []
    dense = components_of(Layout(ep=2), Workload(), experts=False)
    assert dense == []


def test_a_pass_on_cpu_is_no_pass_for_a_gpu() -> None:
    one = _component("recompute")
    assert check_of(_result(), one, "cpu", DAY).status == "passed"
    elsewhere = check_of(_result(), one, "b200", DAY)
    assert elsewhere.status == "not run" and "b200 is asked" in elsewhere.detail
    failed = check_of(_result(status="failed"), one, "b200", DAY)
    assert failed.status == "failed"
    assert check_of(_result(device="cuda"), one, "b200", DAY).values["gpu"] == "b200"


def test_a_recipe_records_shape_device_date_bound_and_value() -> None:
    check = check_of(_result(), _component("recompute"), "cpu", DAY)
    block = correctness_block([check], "measured", "none")
    (test,) = block.component_tests
    assert (test.test, test.shape, test.gpu, test.date) == ("recompute", "one layer", "cpu", DAY)
    assert test.result == "pass"
    assert (check.values["bound"], check.values["value"]) == (1e-6, 0.0)
