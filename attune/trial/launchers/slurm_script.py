"""`job.sh`: what Slurm runs once for a job, on its first node; it starts `node.sh` on all nodes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from attune.trial.launchers.node_script import port_of

EXIT_CODE = "logs/exit-code"
"""Where the script leaves its exit code: it outlives Slurm's memory of the job."""


def write_job_script(
    directory: Path, *, template: str, name: str, srun: tuple[str, ...], head: str
) -> Path:
    """Writes `job.sh` into the trial directory, which holds `node.sh`; gives its path.

    All else is as in `job_script`.
    """
    place = shlex.quote(str(directory.resolve()))
    path = directory / "job.sh"
    text = job_script(place, template=template, name=name, srun=srun, head=head)
    path.write_text(text, encoding="utf-8")
    return path


def job_script(
    place: str,
    *,
    template: str,
    name: str,
    srun: tuple[str, ...],
    head: str,
    orders: Sequence[str] = (),
    before: Sequence[str] = (),
) -> str:
    """The text of `job.sh`.

    Args:
        place: shell word that is the folder of `node.sh`.
        template: the site's way to start a script on every node.
        name: the job's own name.
        srun: arguments of srun beside those that every job has; none with a blank in it.
        head: shell words that print the address of the first node.
        orders: lines for sbatch before those of the template.
        before: commands that run first, where the job was submitted from.
    """
    own = [line for line in template.splitlines() if line.startswith("#SBATCH")]
    words = ("--kill-on-bad-exit=1", "--cpu-bind=none", "--ntasks-per-node=1", *srun)
    # A folder may have a blank in its name, and srun's arguments are split at blanks.
    logged = (*words, "--output=logs/node-%n.log", "--open-mode=append")
    lines = [
        "#!/bin/bash",
        # sbatch reads its orders only above the first command.
        *orders,
        *own,
        *before,
        f"cd {place}",
        f"trap 'echo $? > {EXIT_CODE}' EXIT",
        f"export ATTUNE_PORT={port_of(name)}",
        f'export ATTUNE_HEAD="$({head})"',
        f"export ATTUNE_SRUN={shlex.quote(' '.join((f'--job-name={name}', *logged)))}",
        f"export ATTUNE_NODE_SCRIPT={place}/node.sh",
        template,
    ]
    return "\n".join(lines)


def head_of(node_list: str) -> str:
    """Shell words that print where Slurm reaches the first node of a list."""
    name = f'"$(scontrol show hostnames {node_list} | head -n 1)"'
    return f"scontrol show node --oneliner {name} | sed -n 's/.* NodeAddr=\\([^ ]*\\).*/\\1/p'"
