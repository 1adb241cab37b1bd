"""Each form of an export, by the framework's and the launchers' own functions."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace

import yaml

from attune.errors import AttuneError
from attune.recipe.job import portable_command
from attune.trial.frameworks import Command, load_framework
from attune.trial.job import Job
from attune.trial.launchers.kubernetes import KubernetesLauncher
from attune.trial.launchers.node_script import GUARD, node_script
from attune.trial.launchers.options import read_template
from attune.trial.launchers.ray import PROGRAM, RayLauncher
from attune.trial.launchers.slurm import SlurmLauncher
from attune.trial.launchers.slurm_script import head_of, job_script
from attune.trial.script import here_documents, shell_script

Options = Mapping[str, str]
Environment = Mapping[str, str]
_PYTHON = "python3"
_PLACED = """import json, sys
print(json.dumps(json.loads(sys.argv[1]) | {"directory": sys.argv[2]}))"""
"""Fills in the folder, which is known where the script runs."""
_HERE = "cd ."
_BESIDE = 'cd "$(dirname "$0")"'


def script(job: Job, environment: Environment, options: Options) -> str:
    """A shell script that needs nothing beside it: run it on every node.

    Raises:
        AttuneError, LayoutError: the framework cannot say the job.
    """
    command = _command(job, environment)
    if command.starter == "torchrun":
        return shell_script(command, options.get("python", _PYTHON), with_files=True)
    checkout = job.setup.checkout
    head = ["#!/bin/bash", "set -eu", *_exports(environment)]
    head += [f"cd {shlex.quote(checkout)}"] if checkout != "." else []
    return "\n".join(head) + "\n" + load_framework(job.framework).run_block(job)


def variables(job: Job, environment: Environment, options: Options) -> str:
    """The variables that the trainer runs with, as a file to be sourced."""
    return "\n".join(_exports(_command(job, environment).environment)) + "\n"


def sbatch(job: Job, environment: Environment, options: Options) -> str:
    """A batch script for `sbatch FILE`; it runs in a folder beside where it is submitted from."""
    launcher = SlurmLauncher.of({"python": _PYTHON, "mode": "sbatch", **options})
    command, python = _command(job, environment), launcher.options.python
    name = _name(command)
    orders = (f"--job-name={name}", f"--output={name}.log", *launcher.orders(job))
    node = node_script(command, place=".", python=python, mode="keep", tell=False)
    return job_script(
        '"$PWD"',
        template=read_template(launcher.options, "slurm.sh"),
        name=name,
        srun=("--input=none", f"--ntasks={job.cluster.nodes}"),
        head=head_of('"$SLURM_JOB_NODELIST"'),
        orders=[f"#SBATCH {_order(word)}" for word in orders],
        before=["set -e", *_into(name), *_files(command, node)],
    )


def ray(job: Job, environment: Environment, options: Options) -> str:
    """A shell script that submits the run to a Ray cluster, from a folder that all nodes see."""
    launcher = RayLauncher.of({"python": _PYTHON, **options})
    command, python = _command(job, environment), launcher.options.python
    submit = ["ray job submit"]
    if address := launcher.options.address:
        submit.append(f"--address={shlex.quote(address)}")
    if command.starter == "torchrun":
        node = node_script(command, place=".", python=python, mode="supervise", tell=False)
        made, start = _ray_program(launcher, job), "start.sh"
    else:
        # The driver itself is the program; its variables must reach the actors too.
        once = replace(command, starter="program")
        node = node_script(once, place=".", python=python, mode="keep", tell=True)
        runtime = json.dumps({"env_vars": command.environment})
        submit.append(f"--runtime-env-json={shlex.quote(runtime)}")
        made, start = [], "node.sh"
    lines = ["#!/bin/sh", "set -eu", *_into(_name(command)), *_files(command, node), *made]
    return "\n".join([*lines, " ".join([*submit, "--", f'sh "$PWD/{start}"'])]) + "\n"


def _ray_program(launcher: RayLauncher, job: Job) -> list[str]:
    """Lines that write what places the run on the nodes, and the script that starts it."""
    python = shlex.quote(launcher.options.python)
    start = ["#!/bin/sh", "set -eu", _BESIDE, "mkdir -p logs", f"exec {python} -u {PROGRAM.name}"]
    program = PROGRAM.read_text(encoding="utf-8")
    needs = shlex.quote(json.dumps(launcher.needs(job, "")))
    return [
        *here_documents({PROGRAM.name: program, "start.sh": "\n".join(start)}),
        f'{python} -c {shlex.quote(_PLACED)} {needs} "$PWD" > ray_job.json',
    ]


def kubernetes(job: Job, environment: Environment, options: Options) -> str:
    """A TrainJob for `kubectl create -f FILE`."""
    launcher = KubernetesLauncher.of({"image": "IMAGE", **options})
    command = _command(job, environment)
    if command.starter == "ray_driver":
        raise AttuneError(f"{job.framework} needs a Ray cluster; export --to ray for KubeRay")
    manifest = launcher.manifest(job, command, _name(command))
    return yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True)


FORMS: dict[str, Callable[[Job, Environment, Options], str]] = {
    "script": script,
    "megatron-bridge": script,
    "sbatch": sbatch,
    "ray": ray,
    "k8s": kubernetes,
    "env": variables,
}


def _command(job: Job, environment: Environment) -> Command:
    """The framework's command, with the variables of the recipe over its own."""
    framework = load_framework(job.framework)
    if reason := framework.refuses_model(job):
        raise AttuneError(reason)
    wrong = next((name for name in environment if not re.fullmatch(r"[A-Za-z_]\w*", name)), None)
    if wrong is not None:
        raise AttuneError(f"`{wrong[:80]}` of the recipe's env is no name of a variable")
    command = portable_command(job)
    return replace(command, environment={**command.environment, **environment})


def _exports(environment: Environment) -> list[str]:
    return [f"export {name}={shlex.quote(value)}" for name, value in sorted(environment.items())]


def _name(command: Command) -> str:
    """The run's own name: the same for the same command."""
    told = repr((command.argv, sorted(command.files.items()), sorted(command.environment.items())))
    return f"attune-{hashlib.sha256(told.encode()).hexdigest()[:12]}"


def _into(name: str) -> list[str]:
    return [f"mkdir -p {name}/logs", f"cd {name}"]


def _files(command: Command, node: str) -> list[str]:
    """Lines that write the command's files, the script of a node and its guard."""
    beside = node.replace(_HERE, _BESIDE, 1)
    guard = GUARD.read_text(encoding="utf-8")
    return here_documents({**command.files, "node.sh": beside, GUARD.name: guard})


def _order(word: str) -> str:
    """A word of an `#SBATCH` line, which sbatch reads as a shell would."""
    if "\n" in word or "\r" in word:
        raise AttuneError(f"an option of sbatch has one line, but got {word[:80]!r}")
    return shlex.quote(word)
