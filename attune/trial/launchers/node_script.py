"""`node.sh`: what every node of a job runs, whatever scheduler starts it there.

It needs three variables: ATTUNE_NODE (number of this node, from 0; of the scheduler by default),
ATTUNE_HEAD (address of the first node) and ATTUNE_PORT (a free port there). The guard lies beside
it, so that nothing of attune has to be installed where a node program runs.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal

from attune.trial.frameworks.framework import Command

GUARD = Path(__file__).with_name("guard.py")
GRACE_S = 5.0
"""How long ranks may take to end after SIGTERM before they are killed."""
_FIRST_PORT, _PORTS = 20000, 12000
"""Below the ports that Linux gives to clients (ip_local_port_range from 32768)."""
Mode = Literal["supervise", "keep"]
"""How the guard learns that its launcher is gone: its standard input ends, or its parent does."""


def port_of(name: str) -> int:
    """The port of a job's rendezvous, by the job's own name: two on one node do not meet."""
    return _FIRST_PORT + int(name.rpartition("-")[2], 16) % _PORTS


def write_node_script(command: Command, directory: Path, *, python: str, mode: Mode) -> Path:
    """Writes `node.sh` and the guard into the trial directory; gives the script's path.

    Args:
        command: what a framework prepared; its files lie in the directory.
        directory: the trial directory, seen by every node under the same path.
        python: the interpreter of the nodes.
        mode: how the guard learns that its launcher is gone.
    """
    (directory / GUARD.name).write_text(GUARD.read_text(encoding="utf-8"), encoding="utf-8")
    path = directory / "node.sh"
    place = str(directory.resolve())
    path.write_text(
        node_script(command, place=place, python=python, mode=mode, tell=False), encoding="utf-8"
    )
    return path


def node_script(command: Command, *, place: str, python: str, mode: Mode, tell: bool) -> str:
    """The text of `node.sh`.

    Args:
        command: what a framework prepared.
        place: absolute path of the trial directory on the nodes.
        python: the interpreter of the nodes.
        mode: how the guard learns that its launcher is gone.
        tell: whether ranks write to standard output, each line with the rank before it, and not to
            files of the trial directory.
    """
    variables = {**command.environment, "PYTHONUNBUFFERED": "1"}
    exports = [f"export {k}={shlex.quote(v)}" for k, v in sorted(variables.items())]
    guard = f"{shlex.quote(python)} -I guard.py"
    kept = f"{guard} {mode} {GRACE_S}"
    program = " ".join(shlex.quote(word) for word in (python, *command.argv))
    body = {"torchrun": _torchrun, "ray_driver": _ray_driver, "program": _program}
    lines = body[command.starter](command, kept, guard, program, tell)
    # Slurm and Kubernetes number the nodes themselves.
    number = 'export ATTUNE_NODE="${ATTUNE_NODE:-${SLURM_PROCID:-${JOB_COMPLETION_INDEX:-0}}}"'
    head = ["#!/bin/sh", "set -eu", f"cd {shlex.quote(place)}", "mkdir -p logs", number, *exports]
    return "\n".join([*head, *lines]) + "\n"


def _torchrun(command: Command, kept: str, guard: str, program: str, tell: bool) -> list[str]:
    python = guard.split(" -I ")[0]
    nodes = ["--standalone", "--local-addr=127.0.0.1"]
    if command.nodes > 1:
        # Fixed ranks, not those of who comes first: rank N is on node N // processes.
        nodes = [
            f"--nnodes={command.nodes}",
            '--node-rank="$ATTUNE_NODE"',
            '--master-addr="$ATTUNE_HEAD"',
            '--master-port="$ATTUNE_PORT"',
        ]
    words = [
        f"exec {kept} {python} -m torch.distributed.run",
        *nodes,
        f"--nproc-per-node={command.processes_per_node} --max-restarts=0 --no-python",
        f"{guard} tell" if tell else f"{guard} rank logs",
        program,
    ]
    return [" ".join(words)]


def _program(command: Command, kept: str, guard: str, program: str, tell: bool) -> list[str]:
    logged = "" if tell else f"{guard} log logs/node-0.log "
    return ['[ "$ATTUNE_NODE" = 0 ] || exit 0', f"exec {kept} {logged}{program}"]


def _ray_driver(command: Command, kept: str, guard: str, program: str, tell: bool) -> list[str]:
    """A Ray cluster over the nodes of the job, for as long as the driver on the first one runs."""
    logged = "" if tell else f"{guard} log logs/node-0.log "
    start = "ray start --disable-usage-stats"
    return [
        f'exec {kept} /bin/sh -eu -c \'if [ "$ATTUNE_NODE" = 0 ]; then',
        f'  {start} --head --node-ip-address="$ATTUNE_HEAD" --port="$ATTUNE_PORT"',
        '  export RAY_ADDRESS="$ATTUNE_HEAD:$ATTUNE_PORT" code=0',
        '  "$@" || code=$?',
        "  touch logs/driver-ended; ray stop --force > /dev/null || true; exit $code",
        "fi",
        f'until {start} --address="$ATTUNE_HEAD:$ATTUNE_PORT"; do sleep 2; done',
        "until [ -e logs/driver-ended ]; do sleep 1; done",
        f"ray stop --force > /dev/null || true' node {logged}{program}",
    ]
