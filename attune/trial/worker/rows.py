"""The rows that the worker trains on, as tensors on its device."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from attune.rows.feed import Batch
from attune.rows.synthetic import FOLLOWS, SyntheticRows

__all__ = ["FOLLOWS", "Microbatch", "SyntheticRows", "loss_of_rows", "to_device"]


class Microbatch(NamedTuple):
    """Rows of one microbatch; all fields are [rows, row_tokens]."""

    tokens: torch.Tensor
    labels: torch.Tensor
    weights: torch.Tensor
    """Share of each label in the loss of its row; they sum to 1."""


def to_device(batch: Batch, device: Any) -> Microbatch:
    """A batch of rows on the device."""
    fields = (batch.tokens, batch.labels, batch.weights)
    return Microbatch(*(torch.from_numpy(f.copy()).to(device) for f in fields))


def loss_of_rows(output: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Mean over rows of the mean loss of a row's targets; `output` is [rows, row_tokens]."""
    return (output.float() * weights).sum() / len(weights)
