"""What one step trains on, and how a trial trains it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Precision = Literal["bf16", "fp16", "fp32", "fp8"]


class Optimization(BaseModel):
    """The optimizer and schedule; equal in both arms of every comparison."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    learning_rate: float = Field(1e-5, gt=0)
    min_learning_rate: float = Field(1e-6, ge=0)
    warmup_fraction: float = Field(0.1, ge=0, le=1)
    """Share of the schedule that warms up linearly; the rest is a cosine."""
    weight_decay: float = Field(0.033, ge=0)
    adam_beta1: float = Field(0.9, ge=0, lt=1)
    adam_beta2: float = Field(0.95, ge=0, lt=1)
    adam_epsilon: float = Field(1e-8, gt=0)
    clip_grad: float = Field(1.0, ge=0)
    auxiliary_loss: float = Field(0.0, ge=0)
    """Coefficient of the router's load-balancing loss (MoE)."""


class Workload(BaseModel):
    """Rows, batch, precision, optimizer and length of a trial."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    row_tokens: int = Field(8192, gt=0, le=2**24)
    """Tokens of one row (sequence length)."""
    global_batch: int = Field(128, gt=0, le=2**20)
    """Rows of one step."""
    precision: Precision = "bf16"
    gradient_precision: Literal["fp32", "bf16"] = "fp32"
    """Type in which gradients are accumulated and reduced."""
    steps: int = Field(20, ge=3, le=100_000)
    """Steps of one trial; also the horizon of the learning-rate schedule."""
    rows: str = "synthetic"
    """`synthetic`, or the path of a file of rows."""
    rows_sha256: str | None = None
    seed: int = Field(1234, ge=0)
    """Seed of rows and initial weights."""
    routing: Literal["natural", "balanced"] = "natural"
    """How tokens meet experts: as the router learns it, or forced to balance."""
    optimization: Optimization = Optimization()

    @property
    def tokens_per_step(self) -> int:
        """Tokens of one optimizer step over all ranks."""
        return self.row_tokens * self.global_batch
