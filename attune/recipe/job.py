"""From a recipe to the job that it describes; nothing of its text is run."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from attune.catalog import Cluster, Model, parse
from attune.errors import AttuneError
from attune.recipe.launch_script import command_flags
from attune.recipe.layouts import layout_of
from attune.recipe.problem import known_gpu, known_model
from attune.recipe.schema import Recipe
from attune.trial.frameworks import FRAMEWORKS, Command, load_framework
from attune.trial.job import Job
from attune.workload import Workload

_STEPS = 20
"""Of a recipe that does not say how many steps its run had."""
_OPTIMIZER = {
    "--lr": "learning_rate",
    "--min-lr": "min_learning_rate",
    "--lr-warmup-fraction": "warmup_fraction",
    "--weight-decay": "weight_decay",
    "--adam-beta1": "adam_beta1",
    "--adam-beta2": "adam_beta2",
    "--adam-eps": "adam_epsilon",
    "--clip-grad": "clip_grad",
    "--moe-aux-loss-coeff": "auxiliary_loss",
}
"""Flags whose value belongs to the training, which no block of a recipe states."""
_CONFIG = re.compile(r"worker\.json <<'(\w+)'\n(.*?)\n\1", re.DOTALL)
"""What attune's own worker reads, as the command writes it."""
_TRAINING = ("gradient_precision", "seed", "routing", "optimization")
_OWN = "attune"
"""How a recipe of attune's own worker names its framework."""


def job_of(recipe: Recipe, *, steps: int | None = None, rows: str | None = None) -> Job:
    """The run that a recipe describes: its model, cluster, workload, layout and framework.

    Of `run:` the figures of the training are read, and nothing is run. Without `rows`, the run
    has synthetic rows; those of a recipe by attune whose rows are synthetic are the same ones.

    Raises:
        AttuneError: model, GPU or framework is not known here, or the workload is out of range.
    """
    model, cluster = _model(recipe), _cluster(recipe)
    block, flags = recipe.workload, command_flags(recipe.run)
    usual = {**(model.workload or {}), **_own_training(recipe.run)}
    said = {field: flags[flag] for flag, field in _OPTIMIZER.items() if flag in flags}
    fields = {
        "row_tokens": block.row_tokens,
        "global_batch": block.global_batch,
        "precision": block.precision,
        "steps": steps or (recipe.result.steps_per_run if recipe.result else _STEPS),
        "rows": rows or "synthetic",
        "optimization": {**usual.get("optimization", {}), **said},
    }
    return Job(
        model=model,
        cluster=cluster,
        workload=parse(Workload, {**usual, **fields}, "the recipe's workload"),
        layout=layout_of(recipe),
        framework=framework_of(recipe),
    )


def _own_training(run: str) -> dict[str, Any]:
    """How a command of attune's own worker trains; empty for any other."""
    found = _CONFIG.search(run)
    try:
        stated = json.loads(found[2])["workload"] if found else {}
        return {name: stated[name] for name in _TRAINING if name in stated}
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}


def framework_of(recipe: Recipe) -> str:
    """The framework that `stack.framework` names: `miles 0.1.0 (...)` is `miles`.

    Raises:
        AttuneError: attune knows no framework of that name.
    """
    words = recipe.stack.framework
    first = re.split(r"[\s,:(]", words.strip().lower(), maxsplit=1)[0]
    if first == _OWN:
        return "megatron-core"
    if first in FRAMEWORKS and first != "command":
        return first
    known = ", ".join(name for name in FRAMEWORKS if name != "command")
    raise AttuneError(f"stack.framework begins with `{first[:60]}`, which is none of {known}")


def portable_command(job: Job) -> Command:
    """The framework's command for a job, without what is true of this machine alone.

    Raises:
        AttuneError, LayoutError: the framework cannot say the job.
    """
    command = load_framework(job.framework).prepare(job)
    kept = {k: v for k, v in command.environment.items() if k != "PYTHONPATH"}
    return replace(command, environment=kept)


def _model(recipe: Recipe) -> Model:
    model = known_model(recipe)
    if model is None:
        raise AttuneError(
            f"no model `{recipe.model[:80]}` in the catalogue; `attune models` lists all, "
            "and `attune models add` adds one"
        )
    return model


def _cluster(recipe: Recipe) -> Cluster:
    gpu, block = known_gpu(recipe), recipe.gpu
    if gpu is None:
        raise AttuneError(f"no GPU `{block.type[:80]}` in the catalogue (`attune gpus`)")
    if block.count > block.per_node and block.count % block.per_node:
        raise AttuneError(
            f"gpu.count ({block.count}) does not fill nodes of gpu.per_node ({block.per_node})"
        )
    nodes = {"per_node": block.per_node, "link_domain": None}
    usual = min(gpu.per_node, block.count) == block.per_node
    like = gpu if usual else gpu.model_copy(update=nodes)
    return Cluster(gpu=like, count=block.count)
