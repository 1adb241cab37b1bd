"""Builds the recipe that a campaign leaves behind."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Literal

from attune.catalog import Cluster, Model
from attune.errors import AttuneError
from attune.layout import Layout, write_layout
from attune.recipe.blocks import Author, Dataset, GpuBlock, LayoutBlock, Stack, WorkloadBlock
from attune.recipe.dataset import dataset_block, rows_words
from attune.recipe.layouts import layout_block
from attune.recipe.outcome import correctness_block, result_block
from attune.recipe.schema import AttuneBlock, Check, Gains, Predictions, Recipe
from attune.rows.feed import SYNTHETIC
from attune.rows.manifest import Manifest, load_manifest
from attune.trial.result import TrialResult
from attune.workload import Workload

_NOTE_WIDTH = 116


def build_recipe(
    *,
    model: Model,
    cluster: Cluster,
    workload: Workload,
    layout: Layout,
    result: TrialResult,
    provenance: Literal["predicted", "measured", "verified"],
    checks: Sequence[Check],
    reference: str,
    command: str,
    stack: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
    measured: date | None = None,
    runs: int = 1,
    experiment: str | None = None,
    predictions: Predictions | None = None,
    gains: Gains | None = None,
    author: str = "attune",
) -> Recipe:
    """The recipe of one run of `layout`, whose status is its provenance.

    `reference` says in words what the reference arm was; `command` is the text of `run:`; `stack`
    holds versions by the schema's names, `framework` at least; `measured` is the day of the run.

    Raises:
        ValueError: more is claimed than `result` and `checks` show.
    """
    _refuse_overclaim(provenance, result, checks, measured)
    day = None if provenance == "predicted" else measured
    return Recipe(
        schema_version=1,
        model=model.name,
        gpu=gpu_block(cluster),
        author=Author(name=author),
        status=provenance,
        stack=Stack(**{"network": _network(cluster), **stack}),
        workload=_workload(workload),
        layout=LayoutBlock.model_validate(layout_block(layout, model, cluster.count, workload)),
        result=result_block(result, model, cluster, workload, day, runs),
        correctness=correctness_block(checks, provenance, reference),
        env=dict(environment or {}),
        patches=[],
        run=command.rstrip("\n") + "\n",
        notes=_notes(notes),
        attune=AttuneBlock(
            provenance=provenance,
            hardware=result.hardware,
            model_id=model.id,
            layout=write_layout(layout),
            launcher=result.launcher,
            experiment=experiment,
            peak_reserved_gib=_rounded(result.peak_reserved_gib),
            usd_per_gpu_hour=cluster.gpu.usd_per_gpu_hour,
            peak_tflops=cluster.gpu.peak_tflops.get(workload.precision),
            predictions=predictions,
            gains=gains,
        ),
    )


def _refuse_overclaim(
    provenance: str, result: TrialResult, checks: Sequence[Check], measured: date | None
) -> None:
    """A predicted number never becomes a measured one, nor a measured one verified."""
    if provenance == "predicted":
        return
    if result.provenance not in ("measured", "verified") or measured is None:
        raise ValueError(f"{provenance} recipe of a {result.provenance} run on {measured}")
    unproven = [check.name for check in checks if check.needed and check.status != "passed"]
    if provenance == "verified" and (unproven or not checks):
        raise ValueError(f"verified recipe without {', '.join(unproven) or 'any check'}")


def gpu_block(cluster: Cluster) -> GpuBlock:
    """The `gpu:` block of a cluster."""
    gpu = cluster.gpu
    return GpuBlock(
        type="cpu" if gpu.architecture == "cpu" else gpu.name,
        memory_gb=int(gpu.memory_gb) if gpu.memory_gb.is_integer() else gpu.memory_gb,
        count=cluster.count,
        per_node=cluster.per_node,
        instance=gpu.instance,
    )


def _network(cluster: Cluster) -> str:
    """What the catalogue assumes of the links."""
    if cluster.nodes == 1:
        return f"one node of {cluster.per_node}"
    rate = cluster.gpu.network_link.bandwidth_gb_per_s
    return f"{cluster.per_node} GPUs per node, {rate:g} GB/s per GPU across nodes"


def _workload(workload: Workload) -> WorkloadBlock:
    manifest = _manifest(workload)
    if manifest is not None:
        words, dataset = rows_words(manifest), dataset_block(manifest)
    else:
        synthetic = workload.rows == SYNTHETIC
        words = f"synthetic rows, seed {workload.seed}" if synthetic else Path(workload.rows).name
        dataset = Dataset(name=words, rows_sha256=workload.rows_sha256)
    return WorkloadBlock(
        row_tokens=workload.row_tokens,
        rows=words,
        global_batch=workload.global_batch,
        precision=workload.precision,
        dataset=dataset if workload.rows_sha256 else None,
    )


def _manifest(workload: Workload) -> Manifest | None:
    """The manifest of the rows that were trained on; None where it is not there any more."""
    if workload.rows == SYNTHETIC or workload.rows_sha256 is None:
        return None
    try:
        manifest = load_manifest(Path(workload.rows))
    except AttuneError:
        return None
    return manifest if manifest.rows_sha256 == workload.rows_sha256 else None


def _notes(notes: Sequence[str]) -> str | None:
    """Notes as a list of points, wrapped as on the published pages."""
    points = [
        textwrap.fill(
            " ".join(note.split()),
            width=_NOTE_WIDTH,
            initial_indent="- ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for note in notes
        if note.strip()
    ]
    return "\n".join(points) + "\n" if points else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
