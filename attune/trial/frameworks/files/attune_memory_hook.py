"""Prints the memory peaks of every rank, between steps of miles and slime, which print none.

Given by `--custom-megatron-before-train-step-hook-path attune_memory_hook.report`: called on every
rank before each step. It changes nothing of the run.
"""

from typing import Any

_EVERY = 5
"""After the first steps, in which the optimizer's states come to be, fewer lines do."""


def report(args: Any, rollout_id: int, step_id: int, *rest: Any) -> None:
    """One line of Megatron's own format for the steps so far."""
    import torch

    if rollout_id < 1 or (rollout_id > 3 and rollout_id % _EVERY):
        return
    rank = torch.distributed.get_rank()
    mib = [
        value / 2**20
        for value in (
            torch.cuda.memory_allocated(),
            torch.cuda.max_memory_allocated(),
            torch.cuda.memory_reserved(),
            torch.cuda.max_memory_reserved(),
        )
    ]
    print(
        f"[Rank {rank}] (after {rollout_id} iterations) memory (MB) | allocated: {mib[0]:.2f} | "
        f"max allocated: {mib[1]:.2f} | reserved: {mib[2]:.2f} | max reserved: {mib[3]:.2f}",
        flush=True,
    )
