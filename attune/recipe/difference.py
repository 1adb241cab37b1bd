"""What two recipes do differently: meaning, never wording."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from attune.layout import Layout
from attune.recipe.flags import LAYOUT_FLAGS
from attune.recipe.launch_script import command_flags
from attune.recipe.layouts import layout_of
from attune.recipe.schema import Recipe

_RESULTS = (
    "tokens_per_s_per_gpu",
    "usd_per_million_tokens",
    "mfu",
    "step_time_cv_percent",
    "gpu_hours",
)
_WORKLOAD = ("row_tokens", "global_batch", "precision")


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One thing that differs; a value is None where that recipe has none."""

    part: str
    """`gpus`, `workload`, `layout`, `command`, `environment`, `stack`, `claim` or `result`."""
    name: str
    before: object
    after: object

    @property
    def change_percent(self) -> float | None:
        """How much more the second is, percent of the first; None but for figures of a result."""
        if self.part != "result" or not (_is_number(self.before) and _is_number(self.after)):
            return None
        before, after = float(str(self.before)), float(str(self.after))
        return 100 * (after / before - 1) if before else None


def compare(first: Recipe, second: Recipe) -> list[Difference]:
    """Everything that differs between two recipes and is more than words.

    Layouts are compared knob by knob, whether a recipe says them in attune's own line or in its
    block; flags of the command only where the layout does not say them already.

    Raises:
        AttuneError: attune's own layout line of one is damaged.
    """
    pairs = [
        *_named("gpus", _gpus(first), _gpus(second)),
        *_named("workload", _workload(first), _workload(second)),
        *_named("layout", _knobs(layout_of(first)), _knobs(layout_of(second))),
        *_named("command", _other_flags(first), _other_flags(second)),
        *_named("environment", first.env, second.env),
        *_named("stack", first.stack.model_dump(), second.stack.model_dump()),
        *_named("claim", _claim(first), _claim(second)),
        *_named("result", _result(first), _result(second)),
    ]
    return list(pairs)


def _named(
    part: str, before: Mapping[str, object], after: Mapping[str, object]
) -> Iterator[Difference]:
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if old != new:
            yield Difference(part=part, name=name, before=old, after=new)


def _gpus(recipe: Recipe) -> dict[str, object]:
    return {"model": recipe.model, **recipe.gpu.model_dump()}


def _workload(recipe: Recipe) -> dict[str, object]:
    dataset = recipe.workload.dataset
    values: dict[str, object] = {name: getattr(recipe.workload, name) for name in _WORKLOAD}
    return values | {"rows_sha256": dataset.rows_sha256 if dataset else None}


def _other_flags(recipe: Recipe) -> dict[str, object]:
    return {k: v for k, v in command_flags(recipe.run).items() if k not in LAYOUT_FLAGS}


def _knobs(layout: Layout) -> dict[str, object]:
    return {field.name: getattr(layout, field.name) for field in fields(layout)}


def _claim(recipe: Recipe) -> dict[str, object]:
    correctness = recipe.correctness
    return {
        "author": recipe.author.name,
        "status": recipe.status,
        "provenance": recipe.attune.provenance if recipe.attune else None,
        "correctness": correctness.result if correctness else None,
    }


def _result(recipe: Recipe) -> dict[str, object]:
    return {name: getattr(recipe.result, name, None) for name in _RESULTS}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
