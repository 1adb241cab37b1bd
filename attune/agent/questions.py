"""Tools that only answer: what attune knows of models, clusters and layouts."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from attune.errors import AttuneError
from attune.report.plain import plain

Name = Annotated[str, Field(max_length=100, description="Name from list_models or list_gpus.")]
Count = Annotated[int, Field(ge=1, le=1_000_000, description="Number of GPUs.")]
Text = Annotated[
    str, Field(max_length=2000, description="A layout in one line, as `tp=4 pp=16 ep=8`.")
]
RowTokens = Annotated[int | None, Field(gt=0, description="Tokens of a row; default the model's.")]
GlobalBatch = Annotated[int | None, Field(gt=0, description="Rows of one step.")]
Precision = Annotated[str | None, Field(description="`bf16`, `fp8` or `fp32`.")]
Steps = Annotated[int | None, Field(gt=0, le=1000, description="Steps of a trial; default 20.")]
_PATHS = ("/", "\\", ".yaml", ".yml", ".json")


def plain_name(name: str) -> str:
    """`name`, which is no path: an agent reads no files of its choice.

    Raises:
        AttuneError: it is a path.
    """
    if not name or name.startswith((".", "~")) or any(part in name for part in _PATHS):
        raise AttuneError(f"give a name, not a path: `{name[:80]}`")
    return name


def list_models() -> dict[str, Any]:
    """Models that attune knows, with parameters and layers."""
    from attune.verbs.catalogue import list_models as models

    return {"models": [plain(model) for model in models()]}


def list_gpus() -> dict[str, Any]:
    """GPUs that attune knows, with memory, peak and price; `cpu` trains tiny models here."""
    from attune.verbs.catalogue import list_gpus as gpus

    return {"gpus": [plain(gpu) for gpu in gpus()]}


def describe(
    model: Name,
    gpu: Name,
    count: Count,
    row_tokens: RowTokens = None,
    global_batch: GlobalBatch = None,
    precision: Precision = None,
) -> dict[str, Any]:
    """The model, the cluster and the workload that a campaign would tune."""
    target = target_of(
        model, gpu, count, row_tokens=row_tokens, global_batch=global_batch, precision=precision
    )
    about = target.model.model_dump(mode="json", exclude_defaults=True)
    return {
        "words": target.words,
        "model": plain(about),
        "cluster": plain(target.cluster),
        "workload": plain(target.workload),
    }


def list_layouts(
    model: Name,
    gpu: Name,
    count: Count,
    best: Annotated[int, Field(ge=1, le=50)] = 10,
    space: Annotated[str | None, Field(max_length=100)] = None,
    row_tokens: RowTokens = None,
    global_batch: GlobalBatch = None,
    precision: Precision = None,
) -> dict[str, Any]:
    """The legal layouts predicted fastest, and how many of the search space are legal and fit.

    Every figure is predicted. Takes seconds, spends nothing.
    """
    from attune.verbs.plan import plan

    target = target_of(
        model, gpu, count, row_tokens=row_tokens, global_batch=global_batch, precision=precision
    )
    found: dict[str, Any] = plain(plan(target, space=space and plain_name(space), best=best))
    return found


def explain_layout(
    model: Name,
    gpu: Name,
    count: Count,
    layout: Text,
    row_tokens: RowTokens = None,
    global_batch: GlobalBatch = None,
    precision: Precision = None,
) -> dict[str, Any]:
    """Why a layout is legal or not (each broken rule with its cure), and its time and memory by
    part. Every figure is predicted."""
    from attune.layout import parse_layout
    from attune.verbs.explain import explain

    target = target_of(
        model, gpu, count, row_tokens=row_tokens, global_batch=global_batch, precision=precision
    )
    told: dict[str, Any] = plain(explain(target, parse_layout(layout)))
    return told


def estimate(
    model: Name,
    gpu: Name,
    count: Count,
    layouts: Annotated[list[Text], Field(min_length=1, max_length=100)],
    row_tokens: RowTokens = None,
    global_batch: GlobalBatch = None,
    precision: Precision = None,
) -> dict[str, Any]:
    """Predicted step time, throughput, memory and P(fits) of layouts; illegal ones are refused."""
    from attune.layout import LayoutTable, parse_layout
    from attune.verbs.suggest import suggestions
    from attune.verbs.trial import refuse_illegal

    target = target_of(
        model, gpu, count, row_tokens=row_tokens, global_batch=global_batch, precision=precision
    )
    parsed = [parse_layout(text) for text in layouts]
    for layout in parsed:
        refuse_illegal(target, layout)
    return {
        "provenance": "predicted",
        "estimates": [plain(s) for s in suggestions(target, LayoutTable.of(parsed))],
    }


def target_of(model: str, gpu: str, count: int, **changes: Any) -> Any:
    """The target that names of the catalogue mean.

    Raises:
        AttuneError: a path, an unknown name, or a count that fills no nodes.
    """
    from attune.verbs.target import find_target

    return find_target(plain_name(model), plain_name(gpu), count, changes=changes)


QUESTIONS = (list_models, list_gpus, describe, list_layouts, explain_layout, estimate)
