"""Runs component tests on this machine."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from attune.catalog import Model
from attune.errors import AttuneError
from attune.trial.torchrun import run_under_torchrun
from attune.trial.worker.component_config import (
    ComponentResult,
    ComponentsConfig,
    read_results,
)
from attune.trial.worker.config import Device, environment

LIMIT_S = 1800.0
"""A minute on an idle machine; imports alone take long on a busy one."""


def run_components(
    model: Model, device: Device, tests: Sequence[str], *, processes: int = 2
) -> tuple[ComponentResult, ...]:
    """Results of the component tests of these ids, at a layer of the model.

    Raises:
        AttuneError: the launch failed or took too long; the message ends with its last lines.
    """
    config = ComponentsConfig(model=model, device=device, tests=tuple(tests))
    with tempfile.TemporaryDirectory(prefix="attune-components-") as folder:
        file = Path(folder) / "components.json"
        file.write_text(config.model_dump_json(), encoding="utf-8")
        words = ["-m", "attune.trial.worker.components", "--config", str(file)]
        try:
            code, text = run_under_torchrun(
                words, processes, environment=environment(device), limit_s=LIMIT_S
            )
        except subprocess.TimeoutExpired as error:
            raise AttuneError(f"the component tests took over {LIMIT_S:.0f} s") from error
    results = read_results(text)
    if code or len(results) != len(tests):
        last = " | ".join(text.strip().splitlines()[-3:])
        raise AttuneError(f"the component tests ended with exit code {code}: {last[-600:]}")
    return results
