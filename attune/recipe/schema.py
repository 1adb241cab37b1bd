"""OpenRecipes schema version 1: every field of the published pages, and attune's own.

What attune adds stands under the one key `attune:`, but for `correctness.checks`, which lists
every check with its status. A field that the schema does not know is kept, and `unknown_fields`
names it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any, Literal

from pydantic import BaseModel, Field

from attune.recipe.blocks import (
    Author,
    Degree,
    GpuBlock,
    LayoutBlock,
    Part,
    Result,
    Stack,
    WorkloadBlock,
)
from attune.trial.result import Provenance

Status = Literal["predicted", "measured", "verified", "reference"]
"""What a recipe claims; `reference` is a layout to compare with, whose result is not claimed."""
Verdict = Literal["pass", "fail", "not run"]
CheckStatus = Literal["passed", "failed", "not run"]


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
    values: dict[str, Any] = Field(default_factory=dict)
    needed: bool = True
    """Whether `verified` rests on it."""


class Correctness(Part):
    """Whether the layout still trains the same model."""

    result: Verdict
    summary: str
    reference: str
    """The reference arm in words."""
    configuration: Verdict
    component_tests: list[ComponentTest] = Field(default_factory=list)
    convergence: Convergence | None = None
    rules: str | None = None
    checks: list[Check] = Field(default_factory=list)


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
    env: dict[str, str] = Field(default_factory=dict)
    patches: list[str | dict[str, Any]] = Field(default_factory=list)
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
