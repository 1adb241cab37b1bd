"""Runs a program so that nothing of it outlives its parent: started by path, standard library only.

`guard.py supervise GRACE_S PROGRAM ...` keeps the program while its own standard input is open;
`guard.py rank FOLDER PROGRAM ...` becomes the program of one rank, logging to FOLDER/rank-N.log.
torchrun puts each rank into a session of its own, so a signal to a process group does not reach
them: the supervisor adopts every descendant and ends them by walking /proc.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def descendants(process: int) -> list[int]:
    """Ids of all processes below `process`."""
    found = []
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, file.read_text().split()):
                found += [child, *descendants(child)]
    return found


def end_descendants() -> None:
    """Kill every process below this one and collect it; new ones that appear meanwhile too."""
    while children := descendants(os.getpid()):
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.02)


def supervise(grace_s: float, program: list[str]) -> int:
    """Exit code of the program; it is ended on SIGTERM, or when the parent is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    parent = os.getppid()
    awake, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda got, _: asked.append(got))
    signal.signal(signal.SIGCHLD, lambda *_: None)
    child = subprocess.Popen(program, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)
    while child.poll() is None:
        ready, _, _ = select.select([0, awake], [], [], 1.0)
        if awake in ready:
            os.read(awake, 4096)
        if 0 in ready or os.getppid() != parent:
            break
        if asked:
            child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(grace_s)
            break
    code = child.poll()
    end_descendants()
    return -signal.SIGKILL if code is None else code


def become_rank(folder: str, program: list[str]) -> None:
    """Replace this process by the program, with its output in the log of its rank."""
    die_with_parent()
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    log = os.open(Path(folder) / f"rank-{int(os.environ['RANK'])}.log", flags, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.execvp(program[0], program)


if __name__ == "__main__":
    if sys.argv[1] == "rank":
        become_rank(sys.argv[2], sys.argv[3:])
    status = supervise(float(sys.argv[2]), sys.argv[3:])
    # A negative status is a signal; the shell's convention carries it through an exit code.
    os._exit(status if status >= 0 else 128 - status)
