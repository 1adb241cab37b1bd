"""What measured trials taught, kept for the next experiment on the same cluster."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from attune.catalog import Cluster
from attune.errors import AttuneError
from attune.estimate import NO_CALIBRATION, Calibration
from attune.experiment.calibration_records import (
    CalibrationFile,
    CalibrationKey,
    SavedCalibration,
    calibration_file,
    calibration_of,
    change_file,
    locked,
    read_calibrations,
)


def load_calibration(cluster: Cluster, framework: str, file: Path | None = None) -> Calibration:
    """What earlier measured trials on such nodes taught; `NO_CALIBRATION` where there were none.

    Raises:
        AttuneError: the file is damaged or of a newer version, or `file` lies in no folder.
    """
    place, key = calibration_file(file), CalibrationKey.of(cluster, framework)
    if file is not None and not file.parent.is_dir():
        raise AttuneError(f"no folder {file.parent} for the calibration {file}; make it first")
    for saved in list_calibrations(file):
        if saved.key == key:
            return calibration_of(saved, place)
    return NO_CALIBRATION


def save_calibration(
    calibration: Calibration, cluster: Cluster, framework: str, file: Path | None = None
) -> Path:
    """Writes the calibration in the place of the earlier one of such nodes; gives the file.

    Raises:
        AttuneError: the file is damaged, cannot be written, or is held by another process.
    """
    update_calibration(lambda _: calibration, cluster, framework, file)
    return calibration_file(file)


def update_calibration(
    change: Callable[[Calibration], Calibration],
    cluster: Cluster,
    framework: str,
    file: Path | None = None,
) -> Calibration:
    """Loads, changes and saves in one stroke, so that what two processes learn adds up.

    Args:
        change: the new calibration from the saved one, by which it must have predicted.

    Raises:
        AttuneError: as in `load_calibration` and `save_calibration`.
    """
    key = CalibrationKey.of(cluster, framework)
    changed = NO_CALIBRATION

    def changing(before: CalibrationFile) -> CalibrationFile:
        nonlocal changed
        changed = change(load_calibration(cluster, framework, file))
        others = (saved for saved in before.calibrations if saved.key != key)
        entry = SavedCalibration(key=key, updated=datetime.now(UTC), calibration=changed.as_data())
        return before.model_copy(update={"calibrations": (*others, entry)})

    change_file(changing, file)
    return changed


def list_calibrations(file: Path | None = None) -> list[SavedCalibration]:
    """All calibrations of the file, oldest first; none where there is no file.

    Raises:
        AttuneError: the file is damaged, or of a newer version.
    """
    return sorted(read_calibrations(file).calibrations, key=lambda saved: saved.updated)


def reset_calibrations(
    wanted: Callable[[CalibrationKey], bool] | None = None, file: Path | None = None
) -> int:
    """Forgets the calibrations whose key is `wanted`; by default the file, even a damaged one.

    Returns:
        How many were forgotten; a whole file that cannot be read counts as one.

    Raises:
        AttuneError: the file is held by another process; with `wanted`, it is damaged.
    """
    place = calibration_file(file)
    if not place.exists():
        return 0
    if wanted is None:
        with locked(place):
            number = _count(file)
            place.unlink(missing_ok=True)
            return number
    before = len(read_calibrations(file).calibrations)

    def without(saved: CalibrationFile) -> CalibrationFile:
        return CalibrationFile(
            calibrations=tuple(entry for entry in saved.calibrations if not wanted(entry.key)),
            cells=tuple(cell for cell in saved.cells if not wanted(cell.key)),
        )

    change_file(without, file)
    return before - len(read_calibrations(file).calibrations)


def _count(file: Path | None) -> int:
    try:
        return len(list_calibrations(file))
    except AttuneError:
        return 1
