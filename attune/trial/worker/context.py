"""Context parallelism: which tokens of a row a rank holds, and how it sees the others' keys.

A row is cut into 2 x CP chunks; rank r holds chunks r and 2 x CP - 1 - r, as Megatron does, so
that every rank attends to equally many keys under a causal mask.
"""

from __future__ import annotations

from typing import Any

import torch
from megatron.core import parallel_state


def places(tokens: int, rank: int, size: int) -> torch.Tensor:
    """Positions in a row of `tokens` tokens that context-parallel rank `rank` of `size` holds."""
    chunks = torch.arange(tokens).view(2 * size, -1)
    return torch.cat((chunks[rank], chunks[2 * size - 1 - rank]))


def places_here(tokens: int) -> torch.Tensor:
    """Positions in a row of `tokens` tokens that this rank holds; all of them without CP."""
    size = parallel_state.get_context_parallel_world_size()
    if size == 1:
        return torch.arange(tokens)
    return places(tokens, parallel_state.get_context_parallel_rank(), size)


class _Gathered(torch.autograd.Function):
    """[tokens of this rank, ...] of every rank, to [tokens of the row, ...] in the row's order."""

    @staticmethod
    def forward(held: Any, part: torch.Tensor) -> torch.Tensor:
        group = parallel_state.get_context_parallel_group()
        parts = [torch.empty_like(part, memory_format=torch.contiguous_format) for _ in _ranks()]
        torch.distributed.all_gather(parts, part.contiguous(), group=group)
        tokens = len(part) * len(parts)
        order = torch.cat([places(tokens, rank, len(parts)) for rank in _ranks()])
        whole = torch.empty_like(torch.cat(parts))
        whole[order.to(part.device)] = torch.cat(parts)
        return whole

    @staticmethod
    def backward(held: Any, gradient: torch.Tensor) -> torch.Tensor:
        # Every rank's queries met these keys: their gradients are summed, then cut.
        total = gradient.contiguous().clone()
        torch.distributed.all_reduce(total, group=parallel_state.get_context_parallel_group())
        return total[places_here(len(total)).to(total.device)]


def gather(part: torch.Tensor) -> torch.Tensor:
    """The whole row of what each rank holds a part of, along dimension 0, in the row's order."""
    whole: torch.Tensor = _Gathered.apply(part)
    return whole


def _ranks() -> range:
    return range(parallel_state.get_context_parallel_world_size())
