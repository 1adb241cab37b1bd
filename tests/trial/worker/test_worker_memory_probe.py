from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from attune.catalog import load_cluster, load_model
from attune.estimate import estimate_memory
from attune.layout import LayoutTable, parse_layout
from attune.trial.probe import MemoryProbe
from attune.trial.result import HeldMemory
from attune.trial.worker import log
from attune.workload import Workload

BATCH = (("global_batch", 64),)


def _probe(rank: int, world: int) -> dict[str, Any]:
    return {"probe": MemoryProbe(rank=rank, world=world), "workload": BATCH}


def _held(run: Any) -> dict[str, HeldMemory]:
    found = (log.read_held(line) for line in run.text.splitlines())
    return {held.part: held for held in found if held is not None}


@pytest.mark.parametrize(
    ("model", "layout", "rank", "world"),
    [
        ("tiny-dense", "tp=2 pp=4", 48, 64),
        ("tiny-dense", "tp=2 pp=2 vpp=2 sp=on", 3, 16),
        ("tiny-moe", "ep=4", 1, 8),
        ("tiny-moe", "tp=2 pp=2 ep=4 vpp=2 sp=on", 13, 16),
    ],
)
def test_one_process_holds_what_its_rank_would(
    train: Callable[..., Any], model: str, layout: str, rank: int, world: int
) -> None:
    """Weights, gradients and optimizer as the estimator counts them, of 8 to 64 ranks."""
    run = train(model, layout, **_probe(rank, world))
    assert run.code == 0, run.text[-2000:]
    assert len(run.steps) == 2
    (memory,) = run.memory
    stages = parse_layout(layout).pp
    assert (memory.rank, memory.stage) == (rank, rank // (world // stages))
    table = LayoutTable.of([parse_layout(layout)])
    known = load_model(model)
    workload = Workload.model_validate({**(known.workload or {}), **dict(BATCH)})
    predicted = estimate_memory(known, load_cluster("cpu", world), workload, table)
    for part, held in _held(run).items():
        assert held.rank == rank
        assert held.gib == pytest.approx(predicted.parts[part][0, memory.stage], rel=0.01), part
    assert sum(held.gib for held in _held(run).values()) < memory.allocated_gib


def test_losses_are_not_told(train: Callable[..., Any]) -> None:
    run = train("tiny-dense", "tp=2 pp=4", **_probe(48, 64))
    assert all(loss != loss for loss in run.losses)


def test_running_out_of_memory_names_rank_and_phase(train: Callable[..., Any]) -> None:
    run = train("tiny-moe", "ep=4", memory_gib=0.009, **_probe(5, 8))
    assert run.code == 1
    (error,) = run.errors
    assert (error.kind, error.rank) == ("out_of_memory", 5)
    assert error.phase in ("build", "forward", "backward", "optimizer")


def test_a_rank_receives_as_many_tokens_as_it_sends() -> None:
    """Every expert gets the same share, whatever the activations."""
    torch = pytest.importorskip("torch")
    from attune.trial.worker.probe_memory import _next_experts

    logits = torch.full((32, 2, 16), float("nan"), requires_grad=True)
    chosen = _next_experts(logits, 4).topk(4, dim=-1).indices
    assert (torch.bincount(chosen.flatten(), minlength=16) == 16).all()
    _next_experts(logits, 4).sum().backward()
    assert logits.grad is not None
