"""Writes the winner's recipe into the experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, cast

from attune.counts import tokens_per_s_per_gpu
from attune.experiment.events import Finished, Gain, ReferenceChosen
from attune.experiment.experiment import write_whole
from attune.layout import parse_layout
from attune.recipe import build_recipe, dump_recipe
from attune.recipe.job import portable_command
from attune.recipe.schema import Gains, Predictions
from attune.search.progress import last
from attune.search.runs import Runs
from attune.trial.frameworks import load_framework
from attune.verify import Verification

_FRAMEWORK_WORDS = {
    "megatron-core": "attune {attune}: its own worker on megatron-core {core}",
}


def write_recipe(
    runs: Runs,
    arm: Finished,
    verification: Verification,
    gains: Sequence[Gain],
    notes: Sequence[str],
) -> str:
    """Writes `recipe.yaml`; its path relative to the experiment."""
    inputs = runs.inputs
    result = runs.result(arm.run)
    assert result is not None, "the winner completed"
    job = runs.job_of(arm)
    recipe = build_recipe(
        model=inputs.model,
        cluster=inputs.cluster,
        workload=inputs.workload,
        layout=parse_layout(arm.layout),
        result=result,
        provenance=cast('Literal["predicted", "measured", "verified"]', verification.provenance),
        checks=verification.checks,
        reference=_reference_words(runs),
        command=load_framework(inputs.framework).run_block(job),
        stack=_stack(inputs.framework, inputs.versions),
        environment=portable_command(job).environment,
        notes=[*notes, *_weights(inputs.setup.checkpoint_sha256)],
        measured=datetime.now(UTC).date(),
        experiment=runs.experiment.name,
        predictions=Predictions(
            step_time_s=arm.predicted.step_s,
            tokens_per_s_per_gpu=tokens_per_s_per_gpu(
                arm.predicted.step_s, inputs.workload, inputs.cluster.count
            ),
            peak_gib=arm.predicted.peak_gib,
        ),
        gains=_gains(gains),
    )
    write_whole(runs.experiment.recipe_path, dump_recipe(recipe))
    return runs.experiment.recipe_path.name


def _weights(digest: str | None) -> list[str]:
    """What both arms started from."""
    return [f"Both arms start from one distributed checkpoint, digest {digest}."] if digest else []


def _reference_words(runs: Runs) -> str:
    chosen = last(runs.standing.events, ReferenceChosen)
    source = chosen.source if isinstance(chosen, ReferenceChosen) else "none"
    reference = runs.standing.reference
    if reference is None:
        return f"{source}; it could not run here, so nothing is compared"
    return f"{source}: {reference.layout} (run {reference.run}); same rows, weights and schedule"


def _stack(framework: str, versions: Mapping[str, str]) -> dict[str, str]:
    words = _FRAMEWORK_WORDS.get(framework, framework)
    core = versions.get("megatron-core", "not installed")
    stack = {"framework": words.format(attune=versions.get("attune", "unknown"), core=core)}
    if "torch" in versions:
        stack["pytorch"] = versions["torch"]
    return stack


def _gains(gains: Sequence[Gain]) -> Gains:
    percent = {gain.over: gain.percent for gain in gains}
    return Gains(
        over_reference_percent=percent.get("reference"),
        over_first_choice_percent=percent.get("estimator's first choice"),
    )
