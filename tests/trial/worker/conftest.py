"""Runs the real worker under torchrun."""

from __future__ import annotations

import functools
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from attune.catalog import load_model
from attune.layout import parse_layout
from attune.trial.probe import Probe
from attune.trial.result import RankMemory, Step
from attune.trial.worker import log
from attune.trial.worker.config import Options, WorkerConfig, environment
from attune.workload import Workload

_LIMIT_S = 900


@dataclass(frozen=True, kw_only=True)
class Run:
    """What one run of the worker printed."""

    code: int
    steps: tuple[Step, ...]
    memory: tuple[RankMemory, ...]
    errors: tuple[log.WorkerError, ...]
    text: str

    @property
    def losses(self) -> list[float]:
        return [step.loss for step in self.steps if step.loss is not None]

    @property
    def norms(self) -> list[float]:
        return [step.grad_norm for step in self.steps if step.grad_norm is not None]


@pytest.fixture(scope="session")
def train(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Callable[..., Run]:
    """Trains (model, layout, processes); the same run is trained once, by whichever test asks."""
    pytest.importorskip("megatron.core", reason="the train extra is not installed")
    base = tmp_path_factory.getbasetemp()
    # Processes of pytest-xdist share the folder above their own, and with it their runs.
    directory = base if worker_id == "master" else base.parent

    @functools.cache
    def run(
        model: str,
        layout: str,
        processes: int = 1,
        *,
        memory_gib: float | None = None,
        options: tuple[tuple[str, Any], ...] = (),
        workload: tuple[tuple[str, Any], ...] = (),
        probe: Probe | None = None,
    ) -> Run:
        known = load_model(model)
        config = WorkerConfig(
            model=known,
            workload=Workload.model_validate({**(known.workload or {}), **dict(workload)}),
            layout=parse_layout(layout),
            device="cpu",
            memory_gib=memory_gib,
            options=Options.model_validate(dict(options)),
            probe=probe,
        )
        return train_once(directory, config, processes)

    return run


def train_once(directory: Path, config: WorkerConfig, processes: int) -> Run:
    """One run of the worker; a run of this configuration that lies in `directory` is read."""
    name = hashlib.sha256(f"{processes} {config.text()}".encode()).hexdigest()[:16]
    path, log_path = directory / f"{name}.json", directory / f"{name}.log"
    with FileLock(directory / f"{name}.lock"):
        if not log_path.exists():
            path.write_text(config.text())
            code, text = _launched(path, processes)
            log_path.write_text(f"{code}\n{text}")
    code, _, text = log_path.read_text().partition("\n")
    return _read(int(code), text)


def _launched(path: Path, processes: int) -> tuple[int, str]:
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
        *("--local-addr", "127.0.0.1", f"--nproc-per-node={processes}"),
        *("-m", "attune.trial.worker", "--config", str(path)),
    ]
    root = Path(__file__).resolve().parents[3]
    process = subprocess.Popen(
        command,
        cwd=root,
        env={**os.environ, **environment("cpu")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        text, _ = process.communicate(timeout=_LIMIT_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, text


def _read(code: int, text: str) -> Run:
    lines = text.splitlines()
    return Run(
        code=code,
        steps=tuple(step for line in lines if (step := log.read_step(line))),
        memory=tuple(memory for line in lines if (memory := log.read_memory(line))),
        errors=tuple(error for line in lines if (error := log.read_error(line))),
        text=text,
    )
