"""The file of what measured runs taught: its records, and how it is read and changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import yaml
from filelock import FileLock, Timeout
from platformdirs import user_cache_path
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat

from attune.catalog import Cluster, Link, parse, read_yaml
from attune.errors import AttuneError
from attune.estimate import Calibration
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
    with locked(place):
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
        calibration_of(saved, place)
    return found


def calibration_of(saved: SavedCalibration, place: Path) -> Calibration:
    try:
        return Calibration.of_data(saved.calibration)
    except AttuneError as error:
        raise AttuneError(f"{place}: {error}") from error


@contextmanager
def locked(place: Path) -> Iterator[None]:
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
