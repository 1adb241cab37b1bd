"""The worker's own modules for a layer without Transformer Engine."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional


class RootMeanSquareNorm(torch.nn.Module):
    """RMS norm that knows sequence parallelism, which megatron-core's torch norm refuses."""

    def __init__(self, config: Any, hidden_size: int, eps: float = 1e-5, **_: Any) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(
            torch.ones(hidden_size, dtype=config.params_dtype, device=torch.cuda.current_device())
        )
        self.weight.sequence_parallel = config.sequence_parallel
        self.epsilon = eps

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """[..., hidden] to the same shape."""
        return functional.rms_norm(hidden, (hidden.shape[-1],), self.weight, self.epsilon)


class ScaledDotProductAttention(torch.nn.Module):
    """Causal core attention by torch's kernel, in the place of Megatron's DotProductAttention."""

    def __init__(self, config: Any, layer_number: int, *_: Any, **__: Any) -> None:
        super().__init__()
        self.grouped = config.num_query_groups != config.num_attention_heads

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        **_: Any,
    ) -> torch.Tensor:
        """Query [tokens, rows, heads, size], key and value likewise, to [tokens, rows, hidden]."""
        query, key, value = (x.permute(1, 2, 0, 3) for x in (query, key, value))
        context = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=self.grouped
        )
        return context.permute(2, 0, 1, 3).flatten(2)
