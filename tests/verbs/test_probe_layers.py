from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attune.errors import AttuneError, LayoutError
from attune.experiment import load_cells
from attune.layout import LayoutTable, parse_layout
from attune.trial.result import LayerPass, TrialResult
from attune.verbs import probe_layers as module
from attune.verbs.calibration import forget_calibrations, show_calibrations
from attune.verbs.probe_layers import layer_kinds, one_node, probe_layers
from attune.verbs.suggest import suggestions
from attune.verbs.target import Target, find_target
from attune.verbs.trial import ChosenLauncher

LAYOUT = parse_layout("tp=4 pp=16 ep=8 first=5 last=3")
SIMULATED = ChosenLauncher(name="simulated", reason="asked")
LOCAL = ChosenLauncher(name="local", reason="asked")


@pytest.fixture
def glm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    monkeypatch.setenv("ATTUNE_HOME", str(tmp_path))
    return find_target("glm-4.5", "h200", 128)


def _answers(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Has every probe measure layers that take 30 ms."""

    def run(job: Any, launcher: Any, directory: Path) -> TrialResult:
        layers = tuple(
            LayerPass(kind=kind, forward_s=0.01, backward_s=0.02, spread_percent=1.0)
            for kind in job.probe.kinds
        )
        told = {
            "outcome": "completed",
            "layers": layers,
            "probe": "layers",
            "steps_asked": len(layers),
            "tokens_per_step": 1,
            "gpus": job.cluster.count,
            "wall_s": 60.0,
            "provenance": "measured",
            "hardware": "h200",
            "launcher": "local",
        }
        return TrialResult.model_validate(told | changes)

    monkeypatch.setattr(module, "run", run)


def test_layers_of_a_large_layout_on_one_node(glm: Target) -> None:
    found = probe_layers(glm, LAYOUT, launcher=SIMULATED)
    assert found.completed and found.result.provenance == "predicted"
    assert [one.measured.kind for one in found.layers] == ["dense", "moe", "head"]
    assert found.probe_count == 8 and found.experts == found.all_experts == 160
    assert found.result.gpus == 8 and found.result.tokens_per_s_per_gpu is None
    assert found.low_s < found.probed_step_s < found.high_s
    assert show_calibrations() == (), "a virtual cluster teaches nothing"
    text = (found.directory / "trial.yaml").read_text()
    assert "kind: layers" in text and "count: 8" in text


def test_simulated_layers_are_those_of_the_virtual_cluster(glm: Target) -> None:
    """Recompute makes the backward pass longer, and only that."""
    plain = probe_layers(glm, LAYOUT, launcher=SIMULATED)
    redone = replace(LAYOUT, recompute="full", recompute_method="uniform", recompute_layers=1)
    full = probe_layers(glm, redone, launcher=SIMULATED)
    before, after = (found.layers[1].measured for found in (plain, full))
    assert after.forward_s == pytest.approx(before.forward_s)
    assert after.backward_s > before.backward_s + 0.9 * before.forward_s


def test_a_measured_probe_is_kept_for_every_layout_of_its_point(
    glm: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    _answers(monkeypatch)
    found = probe_layers(glm, LAYOUT, launcher=LOCAL)
    assert found.learnt.trials == 1
    cells = load_cells(glm.model, glm.cluster, glm.workload, "megatron-core")
    assert len(cells) == 1 and cells[0].passes["moe"] == (0.01, 0.02)
    others = LayoutTable.of([LAYOUT, parse_layout("tp=4 pp=8 vpp=2 ep=8 first=12 last=8")])
    with_cells, without = suggestions(glm, others, cells=cells), suggestions(glm, others)
    assert all(a.step_s != b.step_s for a, b in zip(with_cells, without))
    (report,) = show_calibrations()
    assert report.cells == 1 and report.trials == 1
    again = probe_layers(glm, LAYOUT, launcher=LOCAL)
    assert again.learnt.trials == 2 and show_calibrations()[0].cells == 1
    assert forget_calibrations(gpu="h200") == 1
    assert load_cells(glm.model, glm.cluster, glm.workload, "megatron-core") == ()


def test_other_rows_or_models_do_not_take_the_cell(
    glm: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    _answers(monkeypatch)
    probe_layers(glm, LAYOUT, launcher=LOCAL)
    longer = glm.workload.model_copy(update={"row_tokens": 16384})
    assert load_cells(glm.model, glm.cluster, longer, "megatron-core") == ()
    batch = glm.workload.model_copy(update={"global_batch": 256})
    assert load_cells(glm.model, glm.cluster, batch, "megatron-core")
    air = find_target("glm-4.5-air", "h200", 128)
    assert load_cells(air.model, air.cluster, air.workload, "megatron-core") == ()


def test_a_probe_that_failed_keeps_nothing(glm: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    _answers(monkeypatch, outcome="out_of_memory", phase="backward", layers=())
    found = probe_layers(glm, LAYOUT, launcher=LOCAL)
    assert not found.completed and found.learnt.words == ""
    assert found.probed_step_s == found.step_s
    assert show_calibrations() == ()


def test_bad_input_starts_nothing(glm: Target, tmp_path: Path) -> None:
    with pytest.raises(LayoutError, match="first=5 last=3"):
        probe_layers(glm, parse_layout("tp=4 pp=16 ep=8"), launcher=SIMULATED)
    with pytest.raises(LayoutError, match="one node of 8"):
        probe_layers(glm, parse_layout("tp=8 pp=4 cp=2 ep=8"), launcher=SIMULATED)
    assert not list(tmp_path.iterdir())


def test_a_finished_probe_is_not_overwritten(glm: Target, tmp_path: Path) -> None:
    place = tmp_path / "mine"
    probe_layers(glm, LAYOUT, launcher=SIMULATED, directory=place)
    with pytest.raises(AttuneError, match="holds a finished trial"):
        probe_layers(glm, LAYOUT, launcher=SIMULATED, directory=place)


def test_kinds_follow_the_model() -> None:
    assert layer_kinds(find_target("qwen3-8b", "h200", 8)) == ("dense", "head")
    assert layer_kinds(find_target("mixtral-8x7b", "h200", 8)) == ("moe", "head")
    node = one_node(find_target("tiny-moe", "cpu", 8), parse_layout("ep=4 rows=2"))
    assert node.cluster.count == 4 and node.workload.global_batch == 8
