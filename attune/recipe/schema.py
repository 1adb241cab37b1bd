"""OpenRecipes schema version 1: every field of the published pages, and attune's own.

What attune adds stands under the one key `attune:`, but for `correctness.checks`, which lists
every check with its status. A field that this page does not know is kept, and `unknown_fields`
names it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from attune.trial.result import Provenance

Status = Literal["predicted", "measured", "verified", "reference"]
"""What a recipe claims; `reference` is a layout to compare with, whose result is not claimed."""
Verdict = Literal["pass", "fail", "not run"]
CheckStatus = Literal["passed", "failed", "not run"]

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


class ComponentTest(Part):
    """A part of the step, tested alone at the model's shape."""

    test: str
    shape: str | None = None
    gpu: str | None = None
    date: date
    result: Verdict
    detail: str | None = None


class Convergence(Part):
    """Megatron-Bridge's check of the two arms' loss curves."""

    steps: Degree
    result: Verdict
    correlation: float | None = None
    final_loss_difference: float | None = None
    pointwise_failures: int | None = None
    note: str | None = None


class Check(Part):
    """One named check of correctness, whatever came of it."""

    name: str
    status: CheckStatus
    detail: str = ""
    """The deciding number and its bound, or why it did not run."""
    values: dict[str, Any] = {}
    needed: bool = True
    """Whether `verified` rests on it."""


class Correctness(Part):
    """Whether the layout still trains the same model."""

    result: Verdict
    summary: str
    reference: str
    """The reference arm in words."""
    configuration: Verdict
    component_tests: list[ComponentTest] = []
    convergence: Convergence | None = None
    rules: str | None = None
    checks: list[Check] = []


class Predictions(Part):
    """What the estimator said of this layout before it ran."""

    step_time_s: float | None = None
    tokens_per_s_per_gpu: float | None = None
    peak_gib: float | None = None


class Gains(Part):
    """How much faster than other layouts of the same experiment, percent of tokens/s/GPU."""

    over_reference_percent: float | None = None
    over_first_choice_percent: float | None = None
    """Over the layout that the estimator alone would have chosen."""


class AttuneBlock(Part):
    """What attune adds to OpenRecipes."""

    provenance: Provenance
    hardware: str
    """GPU id that it ran on, `cpu`, or `virtual <gpu>`."""
    model_id: str
    """Id of the model in attune's catalogue."""
    layout: str
    """The whole layout as `attune explain --layout` takes it, with what the page cannot say."""
    launcher: str | None = None
    experiment: str | None = None
    source: str | None = None
    """Where the facts of a `reference` or `published` recipe stand."""
    peak_reserved_gib: float | None = None
    usd_per_gpu_hour: float | None = Field(None, ge=0)
    """Price that the recipe reckons with, where it is not the catalogue's."""
    peak_tflops: float | None = Field(None, gt=0)
    """Peak that MFU reckons with, where it is not the catalogue's."""
    predictions: Predictions | None = None
    gains: Gains | None = None


class Recipe(Part):
    """A recipe: what to run, on what, and what came of it."""

    schema_version: Literal[1]
    model: str
    gpu: GpuBlock
    author: Author
    status: Status
    stack: Stack
    workload: WorkloadBlock
    layout: LayoutBlock
    result: Result | None = None
    correctness: Correctness | None = None
    env: dict[str, str] = {}
    patches: list[str | dict[str, Any]] = []
    run: str
    """The command, as text; attune never hands it to a shell by itself."""
    notes: str | None = None
    attune: AttuneBlock | None = None


def unknown_fields(part: BaseModel, path: str = "") -> list[str]:
    """Dotted names of fields that the schema does not know, such as `gpu.colour`."""
    found = [path + name for name in part.model_extra or {}]
    for name, inner in _parts(part):
        found += unknown_fields(inner, f"{path}{name}.")
    return found


def _parts(part: BaseModel) -> Iterator[tuple[str, BaseModel]]:
    for name in type(part).model_fields:
        value = getattr(part, name)
        if isinstance(value, BaseModel):
            yield name, value
        elif isinstance(value, list):
            yield from ((f"{name}.{i}", x) for i, x in enumerate(value) if isinstance(x, BaseModel))


def json_schema() -> dict[str, Any]:
    """JSON Schema of a recipe, for editors and other programs."""
    schema = Recipe.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "OpenRecipes recipe, schema version 1, with attune's additions"
    return schema
