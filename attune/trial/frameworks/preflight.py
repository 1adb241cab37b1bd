"""Asks a framework's own argument check, where its checkout lies on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attune.trial.frameworks.files import file_text
from attune.trial.job import Job

_LIMIT_S = 180.0
"""Importing torch and a framework from a cold network file system takes a minute or two."""
_MAJOR = {"ampere": 8, "hopper": 9, "blackwell": 10}
"""Compute capability by architecture (CUDA programming guide, appendix compute capabilities)."""


def find_refusal(job: Job, script: str, config: Mapping[str, Any]) -> str | None:
    """Why the framework's own check refuses a driver's arguments; None where it accepts them.

    None also where the check cannot run here: no checkout on this machine, or modules missing.
    """
    checkout = Path(job.setup.checkout)
    if not (checkout / script).exists():
        return None
    model = _model_args(config["model_args"], checkout)
    words = [*config["before"], *model, *config["after"]]
    return ask(job, [os.path.expandvars(word) for word in words])


def _model_args(command: Sequence[str], checkout: Path) -> list[str]:
    """The words that the checkout's own command prints; none where it fails."""
    from attune.trial.frameworks.files.attune_driver import model_args

    try:
        return list(model_args(list(command), str(checkout)))
    except (SystemExit, OSError):
        return []


def ask(job: Job, words: Sequence[str]) -> str | None:
    """Why the argument check of the job's framework refuses `words`; None where it does not."""
    major = _MAJOR.get(job.cluster.gpu.architecture)
    if major is None:
        return None
    told = [job.framework, job.setup.checkout, str(job.cluster.count), str(major)]
    program = [sys.executable, "-c", file_text("attune_preflight.py"), *told]
    try:
        done = subprocess.run(
            program,
            input=json.dumps(list(words)),
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            env={**os.environ, "CUDA_DEVICE_MAX_CONNECTIONS": "1", **job.setup.environment},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    last = (done.stdout.strip().splitlines() or [""])[-1]
    refused = last.startswith("refused: ")
    return f"{job.framework}'s own check {last}" if refused else None
