"""The worker's own modules for a layer without Transformer Engine."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from attune.trial.worker import context


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


class ReplicatedLinear(torch.nn.Module):
    """The down projection of latent attention, whole on every tensor rank, without a bias.

    It stands for Transformer Engine's linear. Megatron-core's own way without that one, cut
    columns that are gathered, loses the gradient that the other ranks' heads send to the rotated
    part of the keys (0.16.1: gather_from_tensor_model_parallel_region has no sum in its backward).
    """

    def __init__(self, input_size: int, output_size: int, *, config: Any, **_: Any) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(
            torch.empty(
                (output_size, input_size),
                dtype=config.params_dtype,
                device=torch.cuda.current_device(),
            )
        )
        self.weight.sequence_parallel = config.sequence_parallel

    def forward(self, hidden: torch.Tensor) -> tuple[torch.Tensor, None]:
        """[..., input] to [..., output], and no bias."""
        return functional.linear(hidden, self.weight), None


class ScaledDotProductAttention(torch.nn.Module):
    """Causal core attention by torch's kernel, in the place of Megatron's DotProductAttention.

    It knows what that one does not: context parallelism, and values of another size than keys.
    """

    def __init__(
        self,
        config: Any,
        layer_number: int,
        *_: Any,
        softmax_scale: float | None = None,
        **__: Any,
    ) -> None:
        super().__init__()
        self.scale = softmax_scale
        self.ranks = config.context_parallel_size

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        **_: Any,
    ) -> torch.Tensor:
        """Query [tokens, rows, heads, size], key and value likewise, to [tokens, rows, hidden].

        Under context parallelism the tokens are those of this rank.
        """
        mask = None
        if self.ranks > 1:
            key, value = context.gather(key), context.gather(value)
            mask = _may_look(len(key)).to(query.device)
        query, key, value = (x.permute(1, 2, 0, 3) for x in (query, key, value))
        attended = functional.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            is_causal=mask is None,
            scale=self.scale,
            enable_gqa=query.shape[1] != key.shape[1],
        )
        return attended.permute(2, 0, 1, 3).flatten(2)


def _may_look(tokens: int) -> torch.Tensor:
    """[tokens of this rank, tokens of the row], true where a query may look at a key."""
    return context.places_here(tokens)[:, None] >= torch.arange(tokens)[None, :]
