"""Layer times that probes measured, kept beside the calibrations for the next experiment."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

from attune.catalog import Cluster, Model
from attune.estimate import LayerCell
from attune.experiment.calibration_records import (
    CalibrationFile,
    CalibrationKey,
    SavedCell,
    change_file,
    read_calibrations,
)
from attune.layout import parse_layout, write_layout
from attune.workload import Workload

_NAMES = {"id", "name", "aliases", "source", "workload", "layers", "dense_layers", "moe_layers"}
"""Fields of a model that do not change what one layer of it does."""


def load_cells(
    model: Model, cluster: Cluster, workload: Workload, framework: str, file: Path | None = None
) -> tuple[LayerCell, ...]:
    """The layer times that were measured for this model and workload on such nodes.

    Raises:
        AttuneError: the file is damaged or of a newer version.
    """
    key, about = CalibrationKey.of(cluster, framework), _digest(model, workload)
    return tuple(
        LayerCell(layout=parse_layout(saved.layout), passes=saved.passes)
        for saved in read_calibrations(file).cells
        if saved.key == key and saved.about == about
    )


def save_cell(
    cell: LayerCell,
    model: Model,
    cluster: Cluster,
    workload: Workload,
    framework: str,
    file: Path | None = None,
) -> None:
    """Keeps the cell in the place of an earlier one of the same point.

    Raises:
        AttuneError: the file is damaged, cannot be written, or is held by another process.
    """
    saved = SavedCell(
        key=CalibrationKey.of(cluster, framework),
        model=model.id,
        about=_digest(model, workload),
        layout=write_layout(cell.layout),
        passes=dict(cell.passes),
        updated=datetime.now(UTC),
    )

    def added(before: CalibrationFile) -> CalibrationFile:
        others = (one for one in before.cells if _point(one) != _point(saved))
        return before.model_copy(update={"cells": (*others, saved)})

    change_file(added, file)


def _point(saved: SavedCell) -> tuple[CalibrationKey, str, str]:
    return saved.key, saved.about, saved.layout


def _digest(model: Model, workload: Workload) -> str:
    """Digest of the architecture, the row's tokens, the precision and the routing."""
    text = model.model_dump_json(exclude=_NAMES)
    told = f"{text} {workload.row_tokens} {workload.precision} {workload.routing}"
    return hashlib.sha256(told.encode()).hexdigest()[:16]
