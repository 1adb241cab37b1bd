"""Component tests of a tiny layer, each with the proof that its variant ran."""

from __future__ import annotations

import pytest

from attune.catalog import load_model
from attune.catalog.components import load_components
from attune.trial.components import run_components
from attune.trial.worker.component_config import ComponentResult

pytest.importorskip("megatron.core", reason="the train extra is not installed")
pytestmark = pytest.mark.training


@pytest.fixture(scope="module")
def results() -> dict[str, ComponentResult]:
    names = [one.id for one in load_components()]
    return {one.id: one for one in run_components(load_model("tiny-moe"), "cpu", names)}


@pytest.mark.parametrize(
    ("name", "proof"),
    [
        ("recompute", "the layer ran 2 times"),
        ("dispatcher", "all-to-alls of tokens over 2 ranks"),
        ("cross_entropy", "fused kernel"),
        ("context_parallel", "over 2 ranks"),
        ("bf16_gradients", "in bfloat16"),
    ],
)
def test_what_is_real_on_cpu_passes_and_its_control_fails(
    results: dict[str, ComponentResult], name: str, proof: str
) -> None:
    result = results[name]
    assert result.status == "passed" and proof in result.detail
    assert result.value is not None and result.control is not None
    assert result.value <= result.bound < result.control


@pytest.mark.parametrize(
    "name", ["optimizer_offload", "precision_aware_optimizer", "fp8", "flex_dispatcher"]
)
def test_what_needs_cuda_has_not_run(results: dict[str, ComponentResult], name: str) -> None:
    assert (results[name].status, results[name].detail) == ("not run", "not run: needs CUDA")
