from __future__ import annotations

import numpy as np
import pytest

from attune.catalog import load_cluster, load_model
from attune.errors import LayoutError
from attune.estimate import (
    NO_CALIBRATION,
    LayerCell,
    cell_layout,
    estimate_memory,
    estimate_step_time,
    expected_layers,
    learn,
    node_of,
    observe,
    observe_layers,
)
from attune.layout import LayoutTable, parse_layout
from attune.workload import Workload

GLM, H200 = load_model("glm-4.5"), load_cluster("h200", 128)
DENSE, NODE = load_model("qwen3-8b"), load_cluster("h200", 8)
STAGE = ("compute", "attention", "tensor", "context", "expert", "host")


def _cell(text: str, factor: float = 1.0, model=GLM, cluster=H200) -> LayerCell:
    """What a probe would measure where the truth is `factor` times the estimate."""
    layout = parse_layout(text)
    own = expected_layers(model, cluster, Workload(), layout)
    return LayerCell(
        layout=cell_layout(layout),
        passes={
            kind: (float(x.seconds[0]) * factor / 3, float(x.seconds[0]) * factor * 2 / 3)
            for kind, x in own.items()
        },
    )


def test_a_probe_that_agrees_changes_nothing_but_the_interval() -> None:
    table = LayoutTable.of([parse_layout("tp=4 pp=16 ep=8 first=5 last=3")])
    plain = estimate_step_time(GLM, H200, Workload(), table)
    probed = estimate_step_time(GLM, H200, Workload(), table, cells=[_cell("tp=4 ep=8 rows=2")])
    assert not probed.layers_measured.any()
    cell = _cell("tp=4 pp=16 ep=8 first=5 last=3")
    probed = estimate_step_time(GLM, H200, Workload(), table, cells=[cell])
    assert probed.layers_measured.all()
    assert probed.total == pytest.approx(plain.total)
    assert (probed.sigma < plain.sigma).all()


def test_measured_layers_take_the_place_of_the_estimated() -> None:
    """Twice as slow layers: the stage's parts double, what is not a layer stays."""
    texts = ("tp=2 pp=2", "tp=2 pp=4", "tp=4 pp=2")
    table = LayoutTable.of([parse_layout(text) for text in texts])
    about = (DENSE, NODE, Workload(), table)
    plain = estimate_step_time(*about)
    probed = estimate_step_time(*about, cells=[_cell("tp=2", 2.0, DENSE, NODE)])
    assert list(probed.layers_measured) == [True, True, False]
    for name in STAGE:
        assert probed.parts[name][:2] == pytest.approx(2 * plain.parts[name][:2]), name
        assert probed.parts[name][2] == plain.parts[name][2]
    assert probed.parts["optimizer"] == pytest.approx(plain.parts["optimizer"])
    assert probed.parts["transfer"] == pytest.approx(plain.parts["transfer"])


def test_cell_counts_for_any_pipeline_and_optimizer() -> None:
    near = parse_layout("tp=4 pp=8 vpp=2 ep=8 first=12 last=8 overlap_gradients=on offload=0.5")
    assert cell_layout(near) == cell_layout(parse_layout("tp=4 ep=8"))
    for other in ("tp=4 ep=8 rows=2", "tp=4 ep=8 recompute=full", "tp=4 ep=16", "tp=8 ep=8"):
        assert cell_layout(parse_layout(other)) != cell_layout(near)


def test_experts_are_cut_to_one_node() -> None:
    """Each rank keeps as many experts, and gets as many tokens, as in the whole."""
    node = node_of(GLM, H200, parse_layout("tp=2 pp=4 ep=32"))
    assert (node.cluster.count, node.layout.ep) == (8, 8)
    assert node.model.experts.count * 32 == GLM.experts.count * 8
    whole = node_of(GLM, H200, parse_layout("tp=2 ep=8"))
    assert whole.model == GLM and whole.cluster.count == 8
    assert node_of(GLM, H200, parse_layout("tp=2")).cluster.count == 2


def test_exchange_across_nodes_stays_the_estimators() -> None:
    table = LayoutTable.of([parse_layout("tp=2 pp=4 ep=32")])
    plain = estimate_step_time(GLM, H200, Workload(), table)
    cell = _cell("tp=2 pp=4 ep=32", 1.5)
    probed = estimate_step_time(GLM, H200, Workload(), table, cells=[cell])
    assert probed.parts["expert"] == pytest.approx(plain.parts["expert"])
    assert probed.parts["compute"] == pytest.approx(1.5 * plain.parts["compute"])


def test_what_one_node_cannot_hold_is_refused() -> None:
    with pytest.raises(LayoutError, match="one node of 8"):
        node_of(GLM, H200, parse_layout("tp=8 cp=2 ep=8"))
    few = GLM.model_copy(update={"experts": GLM.experts.model_copy(update={"count": 8})})
    with pytest.raises(LayoutError, match="fewer experts or not"):
        node_of(few, H200, parse_layout("tp=8 etp=8 ep=8"))


def test_a_trial_of_probed_layers_teaches_nothing_about_them() -> None:
    layout = parse_layout("tp=2 pp=2")
    table = LayoutTable.of([layout])
    about = (DENSE, NODE, Workload(), table)
    memory = estimate_memory(*about)
    time = estimate_step_time(*about, cells=[_cell("tp=2", 1.0, DENSE, NODE)])
    seen = observe(time, memory, measured_s=2 * float(time.total[0]))
    learnt = learn(NO_CALIBRATION, [seen])
    # The optimizer's share of the compute multiplier is all that is left of it.
    assert learnt.multiplier("compute") < 1.1
    assert learnt.multiplier("pipeline") > 1.0
    plain = observe(estimate_step_time(*about), memory, measured_s=2 * float(time.total[0]))
    assert learn(NO_CALIBRATION, [plain]).multiplier("compute") > 1.2
    assert np.isfinite(learnt.mean).all()


def test_slow_layers_teach_that_compute_is_slow() -> None:
    cell = _cell("tp=2", 1.5, DENSE, NODE)
    expected = expected_layers(DENSE, NODE, Workload(), cell.layout)
    learnt = learn(NO_CALIBRATION, observe_layers(expected, cell))
    assert 1.2 < learnt.multiplier("compute") < 1.6
    assert learnt.multiplier("memory") == 1.0
