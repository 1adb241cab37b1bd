"""Runs the `attune` command as a person would: own process, own folder, no terminal."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

LIMIT_S = 600.0


@dataclass(frozen=True, kw_only=True)
class Run:
    """An `attune` command in its own process group, writing to `output`."""

    process: subprocess.Popen[bytes]
    output: Path

    @property
    def text(self) -> str:
        """Everything printed so far, errors included."""
        return self.output.read_text(encoding="utf-8", errors="replace")

    def wait(self, limit_s: float = LIMIT_S) -> int:
        """Exit code; a run that outlives `limit_s` is killed and fails the test."""
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still running after {limit_s} s:\n{self.text}") from None

    def wait_until(self, condition: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
        """Returns when `condition` holds; fails when the run ends or time is up first."""
        end = time.monotonic() + limit_s
        while not condition():
            assert self.process.poll() is None, f"ended too early:\n{self.text}"
            assert time.monotonic() < end, f"not within {limit_s} s:\n{self.text}"
            time.sleep(0.05)

    def interrupt(self) -> None:
        """Ctrl-C, to attune alone: it must end its children itself."""
        self.process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """kill -9 of attune and of every child still in its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)


@pytest.fixture
def attune(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """`attune("tune", "--model", ...)` starts a command in `tmp_path`; results go there too."""
    runs: list[Run] = []

    def start(*words: str) -> Run:
        output = tmp_path / f"output-{len(runs)}.txt"
        with output.open("wb") as stream:
            process = subprocess.Popen(
                [sys.executable, "-c", "from attune.cli import main; main()", *words],
                cwd=tmp_path,
                env=os.environ | {"ATTUNE_HOME": str(tmp_path), "OMP_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        runs.append(Run(process=process, output=output))
        return runs[-1]

    yield start
    for run in runs:
        run.kill()
