"""The blocks of a recipe that say what ran and what it gave."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(gt=0, le=2**40)]
Degree = Annotated[int, Field(gt=0, le=2**20)]


class Part(BaseModel):
    """A mapping of a recipe; types are exact, so that `2.10` is never read as 2.1."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, allow_inf_nan=False)


class GpuBlock(Part):
    """The GPUs that a recipe is for."""

    type: str
    """Name of the GPU, as in the catalogue (H200); `cpu` for the processes of a small machine."""
    memory_gb: float | int
    count: Degree
    per_node: Degree
    instance: str | None = None


class Author(Part):
    """Who answers for a recipe."""

    name: str
    url: str | None = None


class Stack(Part):
    """Versions of what ran."""

    framework: str
    megatron_lm: str | None = None
    transformer_engine: str | None = None
    pytorch: str | None = None
    cuda: str | None = None
    nccl: str | None = None
    deepep: str | None = None
    python: str | None = None
    network: str | None = None
    source: str | None = None
    """How these versions are known."""


class DatasetBuild(Part):
    """How the rows were built."""

    name: str
    tokenizer: str
    loss_mask: str | None = None
    rows: Count
    row_tokens: Count
    padding_tokens: int = 0
    seed: int
    packing: str | None = None
    supervised_token_ratio: float | None = Field(None, ge=0, le=1)
    parquet_sha256: str | None = None
    parquet_bytes: int | None = None
    builder: str | None = None


class Dataset(Part):
    """Where the rows come from."""

    name: str
    source: str | None = None
    revision: str | None = None
    license: str | None = None
    rows_sha256: str | None = None
    build: DatasetBuild | None = None


class WorkloadBlock(Part):
    """What one step trains on."""

    row_tokens: Count
    rows: str
    """What the rows are, in words."""
    global_batch: Count
    precision: Literal["bf16", "fp16", "fp32", "fp8"]
    dataset: Dataset | None = None


class LayerSplit(Part):
    """Layers of the first and last pipeline stage; the others share the rest evenly."""

    first: Degree | None = None
    last: Degree | None = None


class Recompute(Part):
    """Activation recompute."""

    granularity: Literal["full", "selective"]
    method: Literal["uniform", "block"] | None = None
    num_layers: Degree | None = None


class Offload(Part):
    """Optimizer offload to the host."""

    optimizer_fraction: float = Field(gt=0, le=1)
    overlap_d2h_h2d: bool = False


class LayoutBlock(Part):
    """The layout as a recipe page shows it."""

    label: str
    summary: str
    highlights: str
    tp: Degree
    pp: Degree
    vpp: Degree = 1
    cp: Degree = 1
    ep: Degree = 1
    etp: Degree = 1
    dp: Degree
    sequence_parallel: bool
    layer_split: LayerSplit | None = None
    max_tokens_per_gpu: Count
    rows_per_microbatch: Degree
    recompute: Recompute | None = None
    offload: Offload | None = None
    dispatcher: Literal["alltoall", "allgather", "flex"] | None = None
    """How tokens reach their experts; null for a dense model."""


class ActiveParameters(Part):
    """The N of MFU: parameters that one token meets."""

    count: Count
    source: str | None = None
    revision: str | None = None


class Result(Part):
    """What a run gave; numbers of a `predicted` recipe come from no hardware."""

    tokens_per_s_per_gpu: float = Field(gt=0)
    usd_per_million_tokens: float | None = Field(None, ge=0)
    step_time_cv_percent: float | None = Field(None, ge=0)
    mfu: float | None = Field(None, ge=0, le=1)
    mfu_note: str | None = None
    active_params: ActiveParameters | None = None
    measured: date | None = None
    """Day of the run; null where nothing was measured."""
    steps_per_run: Degree
    window: list[Annotated[int, Field(ge=0)]] = Field(min_length=2, max_length=2)
    """First and last step that are timed, counted from 0."""
    window_tokens: Count
    runs: Degree = 1
    profiler: bool = False
    gpu_hours: float | None = Field(None, ge=0)
    gpu_hours_note: str | None = None
