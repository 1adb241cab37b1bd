"""Slurm as its own programs tell it: sbatch, squeue, scontrol, sacct, scancel."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from attune.errors import AttuneError

_LIMIT_S = 60.0
"""How long one of Slurm's programs may take; slurmctld's own message timeout is 10 s."""
_PATIENCE_S, _RETRY_S = 300.0, 5.0
"""A restart of slurmctld takes seconds, one with a large state minutes."""
Answer = TypeVar("Answer")
ENDED = (
    *("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "DEADLINE", "OUT_OF_MEMORY"),
    *("NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "REVOKED", "SPECIAL_EXIT"),
)
"""Job states after which nothing runs (man squeue, JOB STATE CODES)."""
QUEUED = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD")
_NO_NODES = ("", "(null)", "None", "None assigned")
_UNKNOWN = ("Invalid job id", "not found")
_FIELD = re.compile(r"(?:^|\s)(\w+(?:/\w+)?)=(\S*)")


class SlurmSilentError(Exception):
    """Slurm did not answer; it may the next time."""


def patiently(ask: Callable[[], Answer]) -> Answer:
    """The answer of Slurm, which may be restarting: a campaign of hours does not end for that.

    Raises:
        AttuneError: it refuses, or does not answer for `_PATIENCE_S`.
    """
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return ask()
        except SlurmSilentError as error:
            if time.monotonic() > end:
                raise AttuneError(f"Slurm does not answer: {error}; try again later") from error
            time.sleep(_RETRY_S)


@dataclass(frozen=True, kw_only=True, slots=True)
class SlurmJob:
    """What Slurm says of one job."""

    state: str
    """COMPLETED, RUNNING, PENDING, ..."""
    reason: str = ""
    exit_code: int = 0
    """Of the batch script; minus the signal where a signal ended it."""
    node_list: str = ""
    started: float | None = None
    """Seconds since 1970."""
    ended: float | None = None

    @property
    def has_nodes(self) -> bool:
        """Whether it ever had some: one that was cancelled in the queue has times all the same."""
        return self.state not in QUEUED and self.node_list not in _NO_NODES

    @property
    def over(self) -> bool:
        return self.state in ENDED


def call(*words: str) -> str:
    """Standard output of one of Slurm's programs.

    Raises:
        AttuneError: Slurm refuses; its own words.
        SlurmSilentError: it cannot be reached at the moment.
    """
    try:
        done = subprocess.run(
            words,
            env={**os.environ, "SLURM_TIME_FORMAT": "standard"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
        )
    except FileNotFoundError as error:
        raise AttuneError(
            f"launcher slurm needs `{words[0]}`, which is not on the PATH; run attune on a login "
            "node of the cluster"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise SlurmSilentError(f"{words[0]} did not answer in {_LIMIT_S:.0f} s") from error
    if done.returncode == 0:
        return done.stdout
    said = " ".join(done.stderr.split()) or f"{words[0]} ended with {done.returncode}"
    if re.search(r"(?i)unable to contact|timed out|connection refused|socket", said):
        raise SlurmSilentError(said)
    raise AttuneError(said)


def submit(arguments: Sequence[str]) -> str:
    """Number of the new job."""
    # `--parsable` prints `number`, or `number;cluster`.
    return call("sbatch", "--parsable", *arguments).strip().split(";")[0]


def find(name: str) -> str | None:
    """Number of the job of that name that still waits or runs."""
    lines = call("squeue", "--noheader", "--me", "--name", name, "--format=%i").split()
    return lines[0] if lines else None


def find_step(name: str) -> str | None:
    """Number of the step of that name that still runs."""
    lines = call("squeue", "--noheader", "--steps", "--name", name, "--format=%i").split()
    return lines[0] if lines else None


def ask(number: str) -> SlurmJob | None:
    """What Slurm knows of a job; None where it has forgotten it.

    Raises:
        SlurmSilentError: it tells nothing at the moment.
    """
    try:
        return _of_scontrol(call("scontrol", "show", "job", "--oneliner", number))
    except AttuneError as error:
        if not any(word in str(error) for word in _UNKNOWN):
            # Whatever else is wrong says nothing about the job.
            raise SlurmSilentError(str(error)) from error
    return _ask_accounting(number)


def _ask_accounting(number: str) -> SlurmJob | None:
    """The same from the accounting, which remembers longer, where the site keeps one."""
    wanted = "--format=State,ExitCode,NodeList,Start,End"
    try:
        text = call("sacct", "--noheader", "--parsable2", "--allocations", wanted, "-j", number)
    except AttuneError:
        return None
    if not text.strip():
        return None
    state, code, nodes, start, end = text.splitlines()[0].split("|")
    return SlurmJob(
        state=state.split()[0],  # `CANCELLED by 1000`
        exit_code=_exit_code(code),
        node_list=nodes,
        started=_time(start),
        ended=_time(end),
    )


def cancel(number: str) -> None:
    """Asks for the end of a job; one that has ended stays as it is.

    Raises:
        SlurmSilentError: nobody took the order.
    """
    try:
        call("scancel", number)
    except AttuneError as error:
        if not any(word in str(error) for word in (*_UNKNOWN, "already completing")):
            raise SlurmSilentError(str(error)) from error


def node_names(node_list: str) -> tuple[str, ...]:
    """`node[1-2,7]` as names, in Slurm's order."""
    if node_list in _NO_NODES:
        return ()
    return tuple(call("scontrol", "show", "hostnames", node_list).split())


def node_address(name: str) -> str:
    """Where Slurm itself reaches a node."""
    fields = dict(_FIELD.findall(call("scontrol", "show", "node", "--oneliner", name)))
    return fields.get("NodeAddr") or name


def _of_scontrol(text: str) -> SlurmJob:
    fields = dict(_FIELD.findall(text))
    return SlurmJob(
        state=fields["JobState"],
        reason="" if fields.get("Reason") == "None" else fields.get("Reason", ""),
        exit_code=_exit_code(fields.get("ExitCode", "0:0")),
        node_list=fields.get("NodeList", ""),
        started=_time(fields.get("StartTime", "")),
        ended=_time(fields.get("EndTime", "")),
    )


def _exit_code(text: str) -> int:
    """`1:0` is code 1, `0:15` is signal 15."""
    code, _, signal = text.partition(":")
    return -int(signal) if signal not in ("", "0") else int(code)


def _time(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
