from __future__ import annotations

import pytest

from attune.virtual.schedule import BACKWARD, FORWARD, plan_schedule, rank_order


def test_last_rank_of_1f1b_turns_forward_and_backward() -> None:
    order = rank_order(pp=4, vpp=1, microbatches=3, rank=3)
    assert order == [(d, 0, m) for m in range(3) for d in (FORWARD, BACKWARD)]


def test_first_rank_of_1f1b_warms_up_with_one_forward_per_later_rank() -> None:
    order = rank_order(pp=4, vpp=1, microbatches=8, rank=0)
    assert [d for d, _, _ in order[:5]] == [FORWARD] * 4 + [BACKWARD]


def test_interleaving_runs_groups_of_microbatches_through_each_chunk() -> None:
    order = rank_order(pp=2, vpp=2, microbatches=4, rank=0)
    forwards = [(c, m) for d, c, m in order if d == FORWARD]
    assert forwards == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3)]


@pytest.mark.parametrize(("pp", "vpp", "microbatches"), [(1, 1, 3), (4, 1, 2), (4, 3, 8)])
def test_every_pass_runs_once_and_after_its_input(pp: int, vpp: int, microbatches: int) -> None:
    plan = plan_schedule(pp, vpp, microbatches)
    done = {plan.operations}
    for level in plan.levels:
        assert set(level.after.tolist()) <= done
        assert done.isdisjoint(level.operation.tolist())
        done |= set(level.operation.tolist())
    assert len(done) == plan.operations + 1


@pytest.mark.parametrize("microbatches", [2, 8])
def test_1f1b_keeps_one_microbatch_per_later_rank(microbatches: int) -> None:
    plan = plan_schedule(4, 1, microbatches)
    assert [live.tolist() for live in plan.live] == [
        [[min(4 - rank, microbatches)]] for rank in range(4)
    ]


def test_interleaving_keeps_the_passes_of_megatron() -> None:
    """2 (PP - r - 1) + (V - 1) PP + 1 chunks on rank r."""
    plan = plan_schedule(4, 2, 16)
    assert [int(live.sum(axis=1).max()) for live in plan.live] == [11, 9, 7, 5]
