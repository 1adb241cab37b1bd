"""`launch.json` of a trial directory: how to find its job again after attune was killed."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

_FILE = "launch.json"


class LaunchRecord(BaseModel):
    """The job of one trial directory."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    launcher: str
    name: str
    """Chosen before the job is submitted; no other job has it."""
    job_id: str | None = None
    """What the scheduler calls it; None until it answered."""
    begun: float
    """When it was submitted, seconds since 1970."""


def begin_launch(launcher: str, directory: Path) -> LaunchRecord:
    """A new record with a name of its own, on disk before the job is submitted."""
    name = f"attune-{uuid.uuid4().hex[:12]}"
    record = LaunchRecord(launcher=launcher, name=name, begun=time.time())
    return _write(record, directory)


def finish_launch(record: LaunchRecord, job_id: str, directory: Path) -> LaunchRecord:
    """The record with the scheduler's own id, on disk before anybody waits for the job."""
    return _write(record.model_copy(update={"job_id": job_id}), directory)


def read_launch(launcher: str, directory: Path) -> LaunchRecord | None:
    """The record of a job of this launcher; None where nothing was submitted by it."""
    try:
        record = LaunchRecord.model_validate_json((directory / _FILE).read_bytes())
    except (OSError, ValidationError):
        return None
    return record if record.launcher == launcher else None


def _write(record: LaunchRecord, directory: Path) -> LaunchRecord:
    draft = directory / f"{_FILE}.tmp"
    with draft.open("w", encoding="utf-8") as file:
        file.write(record.model_dump_json(indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(directory / _FILE)
    return record
