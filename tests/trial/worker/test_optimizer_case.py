"""The float64 Adam that optimizer offload is held against."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("megatron.core")

from attune.catalog.components import load_components  # noqa: E402
from attune.trial.worker.optimizer_case import _ARGUMENTS, offload, worst_update  # noqa: E402

SHAPES = [torch.Size((64, 32)), torch.Size((32,)), torch.Size((128, 64))]
(BOUND,) = (one.bound for one in load_components() if one.id == "optimizer_offload")


def _adam(**changes: object):  # type: ignore[no-untyped-def]
    return lambda parameters: torch.optim.AdamW(parameters, **{**_ARGUMENTS, **changes})


def test_adam_of_torch_is_within_the_bound() -> None:
    assert worst_update(_adam(), SHAPES, "cpu") < BOUND


@pytest.mark.parametrize(
    "changes", [{"betas": (0.9, 0.9)}, {"lr": 1.02e-3}, {"weight_decay": 10.0}, {"eps": 1e-5}]
)
def test_another_adam_is_not(changes: dict[str, object]) -> None:
    assert worst_update(_adam(**changes), SHAPES, "cpu") > BOUND


def test_nothing_is_offloaded_on_cpu_so_nothing_is_tested() -> None:
    assert offload(SHAPES, "cpu")[0] is None
