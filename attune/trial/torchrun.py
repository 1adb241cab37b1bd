"""Runs one of attune's programs under torchrun on this machine, and gives back what it printed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_PACKAGES = Path(__file__).resolve().parents[2]
"""Where the package `attune` lies: an installation or a checkout."""


def run_under_torchrun(
    words: list[str], processes: int, *, environment: Mapping[str, str], limit_s: float
) -> tuple[int, str]:
    """Exit code and output of `torchrun WORDS` on `processes` processes, which die with it.

    Raises:
        subprocess.TimeoutExpired: it took longer than `limit_s`.
    """
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *(f"--nproc-per-node={processes}", *words),
        ],
        env={**os.environ, **environment, "PYTHONPATH": str(_PACKAGES)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        text, _ = process.communicate(timeout=limit_s)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return process.returncode, text
