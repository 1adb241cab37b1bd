"""What a verb is asked about: a model, a cluster, and what one step trains on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attune.catalog import Cluster, Model, load_cluster, load_model, merged, parse, read_yaml
from attune.errors import AttuneError
from attune.layout.unmodelled import refuse_unmodelled
from attune.rows.feed import SYNTHETIC, check_rows_fit
from attune.rows.manifest import load_manifest
from attune.workload import Workload


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """A model on a cluster with a workload."""

    model: Model
    cluster: Cluster
    workload: Workload
    asked_model: str = ""
    """What the caller called the model: a name or a path."""

    @property
    def words(self) -> str:
        """`GLM-4.5 on 128 H200`."""
        return f"{self.model.name} on {self.cluster.count} {self.cluster.gpu.name}"


def find_target(
    model: str,
    gpu: str,
    count: int,
    *,
    cluster: Path | None = None,
    workload: Path | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Target:
    """The target that these names mean.

    Args:
        model: loose name of the catalogue, or the path of a YAML file.
        gpu: loose name of the catalogue, or the path of a YAML file.
        count: number of GPUs.
        cluster: YAML file that replaces fields of the GPU.
        workload: YAML file with fields of `Workload`.
        changes: fields of `Workload` that win over the file; None means not given.

    Raises:
        AttuneError: an unknown name or field, a damaged file, a count that fills no nodes, or a
            precision that the GPU does not compute in.
    """
    refuse_unmodelled([str((changes or {}).get("precision", ""))])
    architecture = load_model(model)
    target = Target(
        model=architecture,
        cluster=load_cluster(gpu, count, cluster),
        workload=find_workload(architecture, workload, changes or {}),
        asked_model=model,
    )
    peaks, precision = target.cluster.gpu.peak_tflops, target.workload.precision
    if precision not in peaks:
        raise AttuneError(
            f"{target.cluster.gpu.name} has no {precision}; use {', '.join(peaks)}, or give its "
            "peak_tflops in --cluster"
        )
    return target


def find_workload(model: Model, path: Path | None, changes: Mapping[str, Any]) -> Workload:
    """The defaults, under the model's own workload, under the file, under `changes`.

    Raises:
        AttuneError: an unknown field or a value out of range, or a file of rows that does not
            fit.
    """
    fields: dict[str, Any] = dict(model.workload or {})
    asked: dict[str, Any] = {}
    if path is not None:
        data = read_yaml(path)
        if not isinstance(data, dict):
            raise AttuneError(f"{path} must be a mapping of workload fields")
        fields = merged(fields, data)
        asked |= data
    given = {name: value for name, value in changes.items() if value is not None}
    fields |= given
    if "row_tokens" not in asked | given:
        fields |= _length_of_rows(fields.get("rows"))
    workload = parse(Workload, fields, str(path) if path and not given else "the workload")
    check_rows_fit(workload, model.vocabulary)
    return workload


def _length_of_rows(rows: Any) -> dict[str, int]:
    """Rows of a file have the length that they have, whatever the model's default."""
    if not isinstance(rows, str) or rows == SYNTHETIC:
        return {}
    return {"row_tokens": load_manifest(Path(rows)).row_tokens}
