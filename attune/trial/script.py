"""A command as a shell script that a person can run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from attune.trial.frameworks.framework import Command

_END = "END_OF_FILE"


def shell_script(command: Command, python: str, *, with_files: bool = False) -> str:
    """The script of one node; run it on every node of the command.

    Args:
        command: what a framework prepared.
        python: the interpreter that it runs by.
        with_files: whether the script writes the command's files itself, into the current
            folder, so that it needs nothing beside it. Without, it runs where they lie.
    """
    exports = [f"export {k}={shlex.quote(v)}" for k, v in sorted(command.environment.items())]
    nodes = ["--standalone"]
    if command.nodes > 1:
        exports.append(': "${HEAD:?name of the first node}"')
        nodes = [f"--nnodes={command.nodes}", "--rdzv-backend=c10d", '--rdzv-endpoint="$HEAD"']
    words = [
        *(shlex.quote(python), "-m", "torch.distributed.run", *nodes),
        f"--nproc-per-node={command.processes_per_node}",
        *map(shlex.quote, command.argv),
    ]
    place = here_documents(command.files) if with_files else ['cd "$(dirname "$0")"']
    return "\n".join(["#!/bin/sh", "set -eu", *place, *exports, "exec " + " ".join(words)]) + "\n"


def here_documents(files: Mapping[str, str]) -> list[str]:
    """Lines of a shell script that write these files, by name, into the current folder."""
    lines = []
    for name, text in files.items():
        end = _END
        while end in text:
            end += "_"
        lines += [f"cat > {shlex.quote(name)} <<'{end}'", text.rstrip("\n"), end]
    return lines
