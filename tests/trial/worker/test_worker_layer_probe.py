from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from attune.catalog import load_model
from attune.layout import parse_layout
from attune.trial.probe import LayerProbe
from attune.trial.result import LayerPass
from attune.trial.worker import log

MOE = ("dense", "moe", "head")


def _layers(run: Any) -> dict[str, LayerPass]:
    found = (log.read_layer(line) for line in run.text.splitlines())
    return {layer.kind: layer for layer in found if layer is not None}


def _batch(layout: str, processes: int) -> tuple[tuple[str, int], ...]:
    asked = parse_layout(layout)
    return (("global_batch", asked.rows_per_microbatch * asked.dp(processes)),)


@pytest.mark.parametrize(
    ("model", "layout", "processes", "kinds"),
    [
        ("tiny-moe", "tp=1", 1, MOE),
        ("tiny-moe", "tp=2 ep=2 sp=on rows=2 recompute=selective recompute_modules=moe", 2, MOE),
        (
            "tiny-dense",
            "tp=2 recompute=full recompute_method=uniform recompute_layers=1",
            2,
            ("dense", "head"),
        ),
    ],
)
def test_every_kind_is_timed_once(
    train: Callable[..., Any], model: str, layout: str, processes: int, kinds: tuple[str, ...]
) -> None:
    probe = LayerProbe(kinds=kinds, repeats=3)
    run = train(model, layout, processes, workload=_batch(layout, processes), probe=probe)
    assert run.code == 0, run.text[-2000:]
    assert tuple(_layers(run)) == kinds
    assert not run.steps
    assert all(layer.forward_s > 0 and layer.backward_s > 0 for layer in _layers(run).values())


def test_running_out_of_memory_in_a_layer_is_told(train: Callable[..., Any]) -> None:
    probe = LayerProbe(kinds=("head",), repeats=3)
    workload = (("global_batch", 16),)
    run = train("tiny-moe", "rows=16", memory_gib=0.01, workload=workload, probe=probe)
    assert run.code == 1
    (error,) = run.errors
    assert error.kind == "out_of_memory" and error.phase in ("build", "forward", "backward")


@pytest.mark.training
@pytest.mark.parametrize(
    "layout", ["tp=1", "rows=4", "recompute=full recompute_method=uniform recompute_layers=1"]
)
def test_layers_add_up_to_the_step_of_a_full_trial(train: Callable[..., Any], layout: str) -> None:
    """One probe of four within a factor of two.

    Both are wall times: where other work takes the cores, they are those of that work.
    """
    trial = train("tiny-moe", layout)
    assert trial.code == 0, trial.text[-2000:]
    measured = min(step.seconds for step in trial.steps[1:])
    told = []
    for seconds in _told(train, layout):
        told.append(seconds)
        if measured / 2 < seconds < 2 * measured:
            return
    if os.getloadavg()[0] > 2 * (os.cpu_count() or 1):
        pytest.skip("the cores have other work: wall times say nothing")
    pytest.fail(f"a step takes {measured:.3g} s, and by its layers {told}")


def _told(train: Callable[..., Any], layout: str) -> Iterator[float]:
    """Step time of tiny-moe by its layers, probe after probe."""
    model, rows = load_model("tiny-moe"), parse_layout(layout).rows_per_microbatch
    for repeats in (10, 11, 12, 13):
        probe = LayerProbe(kinds=MOE, repeats=repeats)
        run = train("tiny-moe", layout, workload=_batch(layout, 1), probe=probe)
        seconds = {kind: layer.seconds for kind, layer in _layers(run).items()}
        dense = model.layers - model.moe_count
        microbatch = dense * seconds["dense"] + model.moe_count * seconds["moe"] + seconds["head"]
        yield 16 / rows * microbatch
