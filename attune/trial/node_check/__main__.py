"""What every rank of a node check runs, under torchrun: `python -m attune.trial.node_check`."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

from attune.trial.node_check.line import RankSpeed, write_speed

_WARM = 2
"""Rounds before the clock starts."""


def main() -> None:
    """Measures, and prints one line."""
    import torch
    import torch.distributed as distributed

    given = _arguments()
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    per_node, world = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
    cuda = torch.cuda.is_available() and not given.cpu
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if cuda else "gloo")
    # Every rank makes every group, as torch wants it.
    groups = [
        distributed.new_group(list(range(first, first + per_node)))
        for first in range(0, world, per_node)
    ]
    slow = 3 if rank == given.slow_rank else 1
    speed = RankSpeed(
        rank=rank,
        tflops=_matrix_rate(torch, device, given.size, given.seconds, slow),
        memory_gib=_memory(torch, device, given.memory_gib),
        node_gb_per_s=_all_reduce(
            torch, device, groups[rank // per_node], per_node, given.mib, given.seconds
        ),
        world_gb_per_s=_all_reduce(torch, device, None, world, given.mib, given.seconds),
    )
    print(write_speed(speed), flush=True)
    distributed.destroy_process_group()


def _matrix_rate(torch: Any, device: Any, size: int, seconds: float, slow: int) -> float:
    """TFLOP/s of a square product in the precision that models train in."""
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    left = torch.randn(size, size, device=device, dtype=kind)

    def product() -> None:
        for _ in range(slow):
            left @ left

    rounds, took_s = _rounds(torch, device, product, seconds)
    return 2 * size**3 * rounds / took_s / 1e12


def _memory(torch: Any, device: Any, asked_gib: float | None) -> float:
    """GiB that hold what is written into them; nine tenths of what is free by default."""
    if asked_gib is None:
        free, _ = torch.cuda.mem_get_info(device) if device.type == "cuda" else (2**28, 0)
        asked_gib = 0.9 * free / 2**30
    block, held = 2**26, []
    for index in range(int(asked_gib * 2**30) // block):
        held.append(torch.full((block // 4,), index, dtype=torch.int32, device=device))
    good = sum(bool((part == index).all()) for index, part in enumerate(held))
    return good * block / 2**30


def _all_reduce(
    torch: Any, device: Any, group: Any, ranks: int, mib: int, seconds: float
) -> float | None:
    """Bus bandwidth as nccl-tests count it: 2 (n - 1) / n times the bytes over the time, GB/s."""
    if ranks == 1:
        return None
    words = torch.ones(mib * 2**18, dtype=torch.float32, device=device)
    # All ranks of the group must stop after the same round, so the first tells how many there are.
    once = lambda: torch.distributed.all_reduce(words, group=group)  # noqa: E731
    _, took_s = _count(torch, device, once, _WARM)
    wanted = torch.tensor([max(1, int(seconds / max(took_s / _WARM, 1e-6)))], device=device)
    torch.distributed.all_reduce(wanted, op=torch.distributed.ReduceOp.MIN, group=group)
    rounds, took_s = _count(torch, device, once, int(wanted.item()))
    return 2 * (ranks - 1) / ranks * words.nbytes * rounds / took_s / 1e9


def _rounds(torch: Any, device: Any, work: Callable[[], Any], seconds: float) -> tuple[int, float]:
    _count(torch, device, work, _WARM)
    _, once_s = _count(torch, device, work, 1)
    return _count(torch, device, work, max(1, int(seconds / max(once_s, 1e-6))))


def _count(torch: Any, device: Any, work: Callable[[], Any], rounds: int) -> tuple[int, float]:
    """Rounds and the time that they took, the device's queue included."""
    began = time.perf_counter()
    for _ in range(rounds):
        work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return rounds, time.perf_counter() - began


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="attune.trial.node_check", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--size", type=int, default=8192, help="rows of the matrix")
    parser.add_argument("--mib", type=int, default=256, help="of the all-reduce")
    parser.add_argument("--memory-gib", type=float, help="to fill, of each rank")
    parser.add_argument("--cpu", action="store_true", help="CPU and gloo, whatever is here")
    parser.add_argument("--slow-rank", type=int, help="for tests: this rank works three times")
    return parser.parse_args()


if __name__ == "__main__":
    main()
