"""Where a campaign starts: dimensions held, a layout that won elsewhere, a part of a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from attune.errors import AttuneError
from attune.experiment import Experiment
from attune.experiment.events import Completed
from attune.layout import write_layout
from attune.layout.dimensions import Space, hold
from attune.workload import Workload


@dataclass(frozen=True, kw_only=True)
class WarmStart:
    """A layout that won elsewhere."""

    layout: str
    source: str
    """Words on where it comes from."""


def find_warm_start(name: str) -> WarmStart:
    """The winner of a recipe file, or of an experiment.

    Raises:
        AttuneError: neither, or an experiment without a winner.
    """
    from attune.recipe import layout_of, load_recipe

    if name.endswith((".yaml", ".yml")):
        recipe = load_recipe(Path(name))
        gpu = f"{recipe.gpu.count} {recipe.gpu.type}"
        return WarmStart(
            layout=write_layout(layout_of(recipe)),
            source=f"recipe of {recipe.model} on {gpu} ({Path(name).name})",
        )
    experiment = Experiment.open(name)
    done = [event for event in experiment.events() if isinstance(event, Completed)]
    if not done or done[-1].winner is None:
        raise AttuneError(
            f"experiment `{experiment.name}` has no winner to start from; finish it with "
            f"--resume {experiment.name}, or start from a recipe"
        )
    inputs = experiment.inputs()
    cluster = f"{inputs.cluster.count} {inputs.cluster.gpu.name}"
    return WarmStart(
        layout=done[-1].winner,
        source=f"winner of {experiment.name} ({inputs.model.name} on {cluster})",
    )


def read_fixed(words: Sequence[str], space: Space) -> dict[str, Any]:
    """Dimensions to hold, from words such as `tp=4`.

    Raises:
        AttuneError: a word that is no `name=value`, a name twice, or one that `space` refuses.
    """
    fixed: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (equals and name and value):
            raise AttuneError(f"--fix takes name=value, such as tp=4, but got `{word}`")
        if name in ("name", "about", "choose"):
            raise AttuneError(f"--fix holds a dimension of the layout; `{name}` is none")
        if name in fixed:
            raise AttuneError(f"--fix {name} is given twice; hold it at one value")
        fixed[name] = _value(value)
    hold(space, fixed)
    return fixed


def _value(text: str) -> int | float | bool | str:
    """A number, on or off, or the text itself."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return value if isinstance(value, int | float | bool) else text


def merge_held(fixed: Mapping[str, Any], held: Mapping[str, Any]) -> dict[str, Any]:
    """What the user fixes with what the trainer cannot vary yet.

    Raises:
        AttuneError: the user asks for what the trainer cannot do.
    """
    for name, value in held.items():
        if name in fixed and fixed[name] != value:
            raise AttuneError(
                f"--fix {name}={fixed[name]}: the trainer runs {name}={value} alone; leave it "
                "out, or play the campaign with --launcher simulated"
            )
    return {**fixed, **held}


def shrink(workload: Workload, count: int, target: int) -> Workload:
    """The workload of `target` GPUs on `count`: as many rows per GPU.

    Raises:
        AttuneError: `target` is smaller, or the global batch does not divide so.
    """
    if target < count:
        raise AttuneError(f"--project {target} is fewer GPUs than --count {count}; tune on fewer")
    rows, rest = divmod(workload.global_batch * count, target)
    if rest or not rows:
        raise AttuneError(
            f"a global batch of {workload.global_batch} on {target} GPUs is no whole number of "
            f"rows on {count}; choose --count so that it divides"
        )
    return workload.model_copy(update={"global_batch": rows})
