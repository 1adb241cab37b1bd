"""The node check: on this machine, and its judgement of many nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from attune.catalog import load_cluster
from attune.errors import AttuneError
from attune.trial.frameworks import Command
from attune.trial.launchers import load_launcher
from attune.trial.node_check import check, check_nodes
from attune.trial.node_check.check import report
from attune.trial.node_check.line import RankSpeed, read_speed, write_speed


def speeds(count: int, **of_rank_9: float) -> list[RankSpeed]:
    """Ranks with a little scatter, and one that differs."""
    usual = {"tflops": 700.0, "memory_gib": 125.0, "node_gb_per_s": 350.0, "world_gb_per_s": 40.0}
    return [
        RankSpeed(
            rank=rank,
            **{
                name: of_rank_9.get(name, value) if rank == 9 else value * (1 + 0.01 * (rank % 5))
                for name, value in usual.items()
            },
        )
        for rank in range(count)
    ]


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"tflops": 400.0}, "matrix rate 400 TFLOP/s, median 700"),
        ({"memory_gib": 61.0}, "memory 61 GiB, median 125"),
        ({"node_gb_per_s": 100.0}, "all-reduce of the node 100 GB/s, median 350"),
    ],
)
def test_the_slow_node_is_named(told: dict[str, float], words: str) -> None:
    names = tuple(f"node{index}" for index in range(16))
    found = report(speeds(128, **told), per_node=8, names=names, seconds=60.0)
    assert found.slow == ("node1",)
    assert found.nodes[1].faults == (words,)
    assert found.gpu_hours == pytest.approx(128 / 60)


def test_scatter_and_what_all_measure_together_name_nobody() -> None:
    found = report(speeds(128, world_gb_per_s=1.0), per_node=8, names=(), seconds=60.0)
    assert found.slow == ()
    assert found.world_gb_per_s == 1.0
    assert found.nodes[3].node == "node 3"


def test_line_is_read_as_it_was_written() -> None:
    speed = RankSpeed(rank=3, tflops=1.5, memory_gib=2.0, node_gb_per_s=None, world_gb_per_s=0.25)
    assert read_speed(f"[rank3]: {write_speed(speed)}") == speed
    assert read_speed("attune node check | {") is None
    assert read_speed("another line") is None


def test_a_check_of_this_machine(tmp_path: Path) -> None:
    found = check_nodes(load_cluster("cpu", 2), load_launcher("local"), tmp_path)
    (node,) = found.nodes
    assert node.tflops > 0 and node.memory_gib > 0
    assert node.node_gb_per_s is not None and found.world_gb_per_s is not None
    assert found.slow == ()


def test_a_check_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(cluster: object) -> Command:
        program = "raise RuntimeError('CUDA error: uncorrectable ECC error encountered')"
        return Command(
            argv=("-c", program), environment={}, files={}, processes_per_node=2, nodes=1
        )

    monkeypatch.setattr(check, "node_check_command", broken)
    with pytest.raises(AttuneError, match=r"0 of 2 ranks answered; .*ECC.*rank \d"):
        check_nodes(load_cluster("cpu", 2), load_launcher("local"), tmp_path)
