"""Runs a program so that nothing of it outlives its parent: started by path, standard library only.

`guard.py supervise GRACE_S PROGRAM ...` keeps the program while its own standard input is open;
`guard.py keep GRACE_S PROGRAM ...` keeps it while its own parent lives;
`guard.py log FILE PROGRAM ...` becomes the program, logging to FILE;
`guard.py rank FOLDER PROGRAM ...` does so for one rank, logging to FOLDER/rank-N.log;
`guard.py tell PROGRAM ...` runs the program of one rank and names the rank before each line.
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


def supervise(grace_s: float, program: list[str], *, lifeline: bool) -> int:
    """Exit code of the program; it is ended on SIGTERM, or when the parent is gone.

    Args:
        grace_s: how long the program may take to end after SIGTERM.
        program: what to run.
        lifeline: whether the end of standard input also says that the parent is gone.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    parent = os.getppid()
    watched = [0] if lifeline else []
    awake, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda got, _: asked.append(got))
    signal.signal(signal.SIGCHLD, lambda *_: None)
    child = subprocess.Popen(program, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)
    while child.poll() is None:
        ready, _, _ = select.select([*watched, awake], [], [], 1.0)
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


def tell(program: list[str]) -> int:
    """Exit code of the program; each line of its output is written after `attune-rank N|`."""
    die_with_parent()
    prefix = f"attune-rank {int(os.environ['RANK'])}|".encode()
    child = subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=die_with_parent
    )
    assert child.stdout is not None
    for line in child.stdout:
        # One write a line: the ranks of a node share this output.
        os.write(1, prefix + line.rstrip(b"\n") + b"\n")
    return child.wait()


def become(log: Path, program: list[str]) -> None:
    """Replace this process by the program, with its output in the log."""
    die_with_parent()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.execvp(program[0], program)


def main(mode: str, place: str, *program: str) -> int:
    """Exit code of the program; minus the signal where a signal ended it."""
    if mode == "log":
        become(Path(place), list(program))
    if mode == "rank":
        become(Path(place) / f"rank-{int(os.environ['RANK'])}.log", list(program))
    if mode == "tell":
        return tell([place, *program])
    return supervise(float(place), list(program), lifeline=mode == "supervise")


if __name__ == "__main__":
    status = main(*sys.argv[1:])
    # A negative status is a signal; the shell's convention carries it through an exit code.
    os._exit(status if status >= 0 else 128 - status)
