"""Time and memory of attune's own commands against the limits that it promises.

`python -m benchmarks.limits [--skip-training]` runs each command as a whole process and prints
wall time and peak memory (largest single process) beside the limit. Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_ATTUNE = (sys.executable, "-c", "from attune.cli import main; main()")
_GLM = ("--model", "glm-4.5", "--gpu", "h200", "--count", "128")
_FUNNEL = """
import time
from attune.catalog import load_cluster, load_model
from attune.layout.space import default_space, load_space
from attune.search.candidates import find_candidates
from attune.workload import Workload
model, cluster = load_model("glm-4.5"), load_cluster("h200", 128)
began = time.perf_counter()
found = find_candidates(model, cluster, Workload(), load_space(default_space(model)))
seconds = time.perf_counter() - began
print(f"{found.drawn:,} drawn, {found.legal:,} legal, {seconds:.2f} s inside the process")
"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One command and what it may take."""

    name: str
    command: tuple[str, ...]
    seconds: float
    gib: float | None = None
    training: bool = False


CASES = (
    Case(name="attune --help", command=(*_ATTUNE, "--help"), seconds=0.5),
    Case(
        name="GLM-4.5, 128 H200: enumerate, check, estimate",
        command=(sys.executable, "-c", _FUNNEL),
        seconds=3.0,
    ),
    Case(
        name="attune tune, 40 simulated trials",
        command=(
            *(*_ATTUNE, "tune", *_GLM, "--launcher", "simulated", "--trials", "40"),
            *("--min-gain", "0", "--yes"),
        ),
        seconds=60.0,
        gib=1.5,
    ),
    Case(
        name="attune trial, tiny-moe, 4 CPU processes, 20 steps",
        command=(
            *(*_ATTUNE, "trial", "--model", "tiny-moe", "--gpu", "cpu", "--count", "4"),
            *("--layout", "tp=2 pp=1 ep=2", "--launcher", "local", "--yes"),
        ),
        seconds=60.0,
        training=True,
    ),
)


def main() -> None:
    """Runs every case and prints one line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--skip-training", action="store_true")
    skip = parser.parse_args().skip_training
    for case in CASES:
        if not (skip and case.training):
            _measure(case)


def _measure(case: Case) -> None:
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "PYTHONPATH": str(_ROOT), "ATTUNE_HOME": home}
        began = time.perf_counter()
        done = subprocess.run(
            case.command, cwd=home, env=environment, capture_output=True, text=True, check=False
        )
        seconds = time.perf_counter() - began
    # The largest child so far: cases stand in order of their memory.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    verdict = "ok" if done.returncode == 0 and seconds <= case.seconds else "OVER"
    memory = f", {peak:.2f} GiB (limit {case.gib} GiB)" if case.gib else ""
    print(f"{verdict:4} {case.name}: {seconds:.2f} s (limit {case.seconds:g} s){memory}")
    lines = done.stdout.strip().splitlines()
    if case.command[-1] == _FUNNEL or done.returncode:
        print("     " + (lines[-1] if lines else done.stderr.strip()[-300:]))


if __name__ == "__main__":
    main()
