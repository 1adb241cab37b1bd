"""A trainer of a few lines: prints the worker's log, and does to itself what it is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from attune.trial.result import RankMemory, Step
from attune.trial.worker.log import (
    WorkerError,
    write_echo,
    write_error,
    write_memory,
    write_step,
)

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
told = dict(word.split("=", 1) for word in sys.argv[1:])
steps = int(told["steps"])
fault = told.get("fault", "")
FAILED = Path("rank-0-has-failed")
"""In the trial's own directory."""


def fail() -> None:
    if fault == "oom" and rank == 0:
        message = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of"
        print(
            write_error(
                WorkerError(
                    rank=0,
                    stage=0,
                    phase="forward",
                    step=1,
                    kind="out_of_memory",
                    requested_bytes=2**31,
                    message=message,
                )
            ),
            flush=True,
        )
        FAILED.touch()
        sys.exit(1)
    if fault == "oom":
        while not FAILED.exists():  # a peer sees the closed connection only after the failure
            time.sleep(0.01)
        print(write_echo(rank, "RuntimeError: pair.cc Connection closed by peer"))
        sys.exit(1)
    if fault == "code" and rank == 0:
        sys.exit(23)
    if fault == "kill" and rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if fault in ("hang", "stubborn"):
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    if fault == "await":
        print("hanging", flush=True)
        while not Path(told.get("go", "go")).exists():
            time.sleep(0.05)
    if fault in ("hang", "stubborn", "wait"):
        print("hanging", flush=True)
        time.sleep(600)


print(f"\x1b[32mrank {rank} of {world}\x1b[0m says {told.get('say', '')}", flush=True)
print(f"variable {os.environ.get('AWKWARD', '')}", file=sys.stderr, flush=True)
for index in range(steps):
    if index == 1:
        fail()
    if rank == world - 1:
        step = Step(step=index, seconds=0.01, loss=5.0 - 0.1 * index, grad_norm=1.0)
        print(write_step(step, steps, 1e-3), flush=True)
    time.sleep(float(told.get("pause", "0.01")))
memory = RankMemory(rank=rank, stage=0, allocated_gib=0.1, reserved_gib=0.2, host_gib=0.3)
print(write_memory(memory))
