"""Every layout trains the same model: losses and gradient norms of the single process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from layout_bounds import WORKLOAD, assert_same

DENSE = [
    ("tp=2", 2),
    ("tp=2 sp=off distributed_optimizer=off", 4),
    ("pp=2", 2),
    ("pp=2 vpp=2", 2),
    ("pp=2 first=1 recompute=mlp", 2),
    ("pp=2 layout=Ettt|tL recompute=full method=block recompute_layers=2", 2),
    ("rows=2 overlap_gradients=on overlap_parameters=on", 2),
    ("recompute=full", 1),
    ("recompute=core_attn", 1),
    ("cp=2 recompute=core_attn", 2),
]
MOE = [
    ("ep=2", 2),
    ("ep=2 dispatcher=allgather recompute=moe,shared_experts", 2),
    ("tp=2 etp=1", 2),
    ("tp=2 pp=2 ep=2", 4),
    ("pp=2 vpp=2 ep=2 rows=2", 4),
    ("ep=4", 4),
    ("pp=2 first=1 recompute=full", 2),
    ("cp=2 tp=2 ep=2", 4),
    ("cp=2 pp=2 ep=2 rows=2", 4),
]
LATENT = [("tp=2 pp=2 ep=2", 4), ("cp=2 ep=2 recompute=core_attn", 4)]


def test_tensor_and_pipeline_parallel_train_the_same_model(train: Callable[..., Any]) -> None:
    assert_same(train, "tiny-dense", "tp=2 pp=2", 4)


@pytest.mark.training
@pytest.mark.parametrize(("layout", "processes"), DENSE)
def test_dense_layouts_train_the_same_model(
    train: Callable[..., Any], layout: str, processes: int
) -> None:
    assert_same(train, "tiny-dense", layout, processes)


@pytest.mark.training
@pytest.mark.parametrize(("layout", "processes"), MOE)
def test_moe_layouts_train_the_same_model(
    train: Callable[..., Any], layout: str, processes: int
) -> None:
    assert_same(train, "tiny-moe", layout, processes)


@pytest.mark.training
@pytest.mark.parametrize(("layout", "processes"), LATENT)
def test_layouts_of_latent_attention_train_the_same_model(
    train: Callable[..., Any], layout: str, processes: int
) -> None:
    assert_same(train, "tiny-mla", layout, processes)


@pytest.mark.parametrize(
    "model", ["tiny-dense", pytest.param("tiny-moe", marks=pytest.mark.training)]
)
def test_loss_falls_clearly(train: Callable[..., Any], model: str) -> None:
    losses = train(model, "tp=1", workload=WORKLOAD).losses
    assert losses[0] > 6.5
    assert sum(losses[-3:]) / 3 < 5


@pytest.mark.training
def test_a_layout_trains_bit_for_bit_again(train: Callable[..., Any]) -> None:
    again = train("tiny-moe", "ep=2", 2, workload=WORKLOAD, memory_gib=8.0)
    first = train("tiny-moe", "ep=2", 2, workload=WORKLOAD)
    assert again.losses == first.losses and again.norms == first.norms
