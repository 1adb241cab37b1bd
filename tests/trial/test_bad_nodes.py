"""Which nodes are left out after failures."""

from __future__ import annotations

from attune.trial.bad_nodes import bad_nodes
from attune.trial.result import Outcome, TrialResult


def ended(outcome: Outcome, rank: int | None, nodes: tuple[str, ...] = ("a", "b")) -> TrialResult:
    return TrialResult(
        outcome=outcome,
        rank=rank,
        nodes=nodes,
        steps_asked=20,
        tokens_per_step=1,
        gpus=16,
        wall_s=1.0,
        provenance="measured",
        hardware="h200",
        launcher="slurm",
    )


def test_two_infrastructure_failures_on_one_node() -> None:
    assert ended("infrastructure", 9).node == "b"
    assert ended("infrastructure", 7).node == "a"
    assert ended("infrastructure", 16).node is None
    assert bad_nodes([ended("infrastructure", 9), ended("infrastructure", 1)]) == ()
    once_more = [ended("infrastructure", 9), ended("infrastructure", 4, ("b", "c"))]
    assert bad_nodes(once_more) == ("b",)


def test_a_layouts_own_failures_and_unknown_places_blame_nobody() -> None:
    assert bad_nodes([ended("out_of_memory", 9)] * 3) == ()
    assert bad_nodes([ended("infrastructure", None)] * 3) == ()
    assert bad_nodes([ended("infrastructure", 3, ())] * 3) == ()
