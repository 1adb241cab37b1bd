"""What measured trials taught, kept for the next experiment on the same cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import yaml
from filelock import FileLock, Timeout
from platformdirs import user_cache_path
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat

from attune.catalog import Cluster, Link, parse, read_yaml
from attune.errors import AttuneError
from attune.estimate import NO_CALIBRATION, Calibration
from attune.experiment.experiment import write_whole

VERSION = 1
"""Of the file; a newer one is refused, an older one would be read by rules of its own."""

_LOCK_LIMIT_S = 60.0


class CalibrationKey(BaseModel):
    """What a calibration belongs to: nodes of one kind, whatever their number, and a framework."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    gpu: str
    per_node: int = Field(gt=0)
    link_domain: int | None = None
    node_link: Link
    network_link: Link
    framework: str

    @classmethod
    def of(cls, cluster: Cluster, framework: str) -> CalibrationKey:
        """The key of a cluster: one node of it has the key of all."""
        gpu = cluster.gpu
        return cls(
            gpu=gpu.id,
            per_node=gpu.per_node,
            link_domain=gpu.link_domain,
            node_link=gpu.node_link,
            network_link=gpu.network_link,
            framework=framework,
        )


class SavedCalibration(BaseModel):
    """One calibration of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    key: CalibrationKey
    updated: datetime
    calibration: dict[str, Any]
    """As `Calibration.as_data` writes it."""


class SavedCell(BaseModel):
    """Layer times that a probe measured at one point of the search space."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    key: CalibrationKey
    model: str
    about: str
    """Digest of all that layer times depend on beside the layout and the nodes."""
    layout: str
    passes: dict[str, tuple[PositiveFloat, PositiveFloat]]
    """Seconds forward and backward by kind."""
    updated: datetime


class CalibrationFile(BaseModel):
    """All that measured runs taught."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    version: Literal[1] = 1
    calibrations: tuple[SavedCalibration, ...] = ()
    cells: tuple[SavedCell, ...] = ()


def calibration_file(file: Path | None = None) -> Path:
    """`file`, or the one in the user's cache directory."""
    return file or user_cache_path("attune") / "calibration.yaml"


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
            return _calibration(saved, place)
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


def read_calibrations(file: Path | None = None) -> CalibrationFile:
    """The whole file; an empty one where there is none.

    Raises:
        AttuneError: the file is damaged, or of a newer version.
    """
    place = calibration_file(file)
    if not place.exists():
        return CalibrationFile()
    try:
        return _parsed(read_yaml(place), place)
    except AttuneError as error:
        where = f" --calibration {file}" if file else ""
        remedy = f"or forget it by `attune calibration --reset{where}`"
        raise AttuneError(f"{error}; {remedy}") from error


def change_file(
    change: Callable[[CalibrationFile], CalibrationFile], file: Path | None = None
) -> None:
    """Reads, changes and writes the file while no other process can.

    Raises:
        AttuneError: the file is damaged, cannot be written, or is held by another process.
    """
    place = calibration_file(file)
    with _locked(place):
        data = change(read_calibrations(file)).model_dump(mode="json")
        with _writing(place):
            write_whole(place, yaml.safe_dump(data, sort_keys=False, width=100))


def _parsed(data: Any, place: Path) -> CalibrationFile:
    version = data.get("version") if isinstance(data, dict) else None
    if isinstance(version, int) and version > VERSION:
        raise AttuneError(
            f"{place} has version {version}, and this attune reads {VERSION}: update attune, or "
            "give another file by --calibration"
        )
    if version is None and isinstance(data, dict):
        raise AttuneError(f"{place} has no version")
    found = parse(CalibrationFile, data, str(place))
    for saved in found.calibrations:
        _calibration(saved, place)
    return found


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
        with _locked(place):
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


def _calibration(saved: SavedCalibration, place: Path) -> Calibration:
    try:
        return Calibration.of_data(saved.calibration)
    except AttuneError as error:
        raise AttuneError(f"{place}: {error}") from error


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    """Holds the file for this process.

    Raises:
        AttuneError: another process holds it, or the folder cannot be written.
    """
    lock = FileLock(place.with_name(f".{place.name}.lock"), timeout=_LOCK_LIMIT_S)
    try:
        with _writing(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire()
    except Timeout:
        raise AttuneError(
            f"{place} is held by another process; wait for it, or give another --calibration"
        ) from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _writing(place: Path) -> Iterator[None]:
    try:
        yield
    except Timeout:
        raise
    except OSError as error:
        raise AttuneError(
            f"cannot write the calibration {place}: {error.strerror or error}; give another file "
            "by --calibration"
        ) from error
