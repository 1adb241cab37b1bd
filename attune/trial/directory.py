"""The files of a trial directory."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from attune.errors import AttuneError
from attune.layout import write_layout
from attune.trial.frameworks.framework import Command
from attune.trial.job import Job
from attune.trial.result import TrialResult
from attune.trial.script import shell_script

_PACKAGES = ("attune", "torch", "megatron-core", "numpy")


def begin_directory(directory: Path) -> None:
    """Make the directory, without what an earlier run that was killed left in it.

    Raises:
        AttuneError: it cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(directory / "logs", ignore_errors=True)
        (directory / "logs").mkdir()
        for name in ("steps.jsonl", "result.json", "launch.json"):
            (directory / name).unlink(missing_ok=True)
    except OSError as error:
        raise AttuneError(f"cannot write the trial to {directory}: {error}") from error


def write_job(job: Job, launcher: str, directory: Path) -> None:
    """`trial.yaml`: the job in words."""
    data: dict[str, Any] = {
        "model": job.model.id,
        "gpu": job.cluster.gpu.id,
        "count": job.cluster.count,
        "layout": write_layout(job.layout),
        "framework": job.framework,
        "launcher": launcher,
        "purpose": job.purpose,
        "run": job.run,
        "limit_s": job.limit_s,
        "workload": job.workload.model_dump(mode="json"),
        "versions": {name: found for name in _PACKAGES if (found := _version(name))},
    }
    if launcher == "simulated":
        data["virtual"] = {"kind": job.virtual.kind, "seed": job.virtual.seed}
    if setup := job.setup.model_dump(mode="json", exclude_defaults=True):
        data["setup"] = setup
    if job.probe is not None:
        data["probe"] = job.probe.model_dump(mode="json")
    if job.worker_options:
        data["worker_options"] = dict(job.worker_options)
    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    (directory / "trial.yaml").write_text(text, encoding="utf-8")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def write_command(command: Command, directory: Path) -> None:
    """The command's files, and `command.sh`: the same by hand; run it on every node."""
    for name, text in command.files.items():
        (directory / name).write_text(text, encoding="utf-8")
    path = directory / "command.sh"
    path.write_text(shell_script(command, sys.executable), encoding="utf-8")
    path.chmod(0o755)


def write_result(result: TrialResult, directory: Path) -> None:
    """`result.json`, whole or not at all."""
    draft = directory / "result.json.tmp"
    with draft.open("w", encoding="utf-8") as file:
        # A loss that is not a number becomes null, as in a log that leaves it out.
        file.write(result.model_dump_json(indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(directory / "result.json")


def read_result(directory: Path) -> TrialResult | None:
    """The result of the trial in `directory`; None where it has not ended.

    Raises:
        AttuneError: `result.json` is damaged.
    """
    path = directory / "result.json"
    try:
        return TrialResult.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise AttuneError(
            f"{path} is damaged ({_reason(error)}); mend it, or move it away to go on without it"
        ) from error


def _reason(error: OSError | ValidationError) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    first = error.errors()[0]
    return ".".join(map(str, first["loc"])) + ": " * bool(first["loc"]) + first["msg"]


def spent_s(directory: Path) -> float:
    """Wall time that a run which never ended is known to have taken, seconds.

    From the launch (trial.yaml) to the last file that it wrote; 0 where it never began.
    """
    begun = directory / "trial.yaml"
    if not begun.exists():
        return 0.0
    written = [path.stat().st_mtime for path in directory.rglob("*") if path.is_file()]
    return max(0.0, max(written) - begun.stat().st_mtime)
