"""The stand-in as a program: `python -m attune.trial.stand_in --config stand_in.json`."""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

from pydantic import TypeAdapter, ValidationError

from attune.errors import AttuneError
from attune.trial.frameworks.framework import Command
from attune.trial.job import Job
from attune.trial.stand_in.part import Fault, FaultName, Line, Performance
from attune.trial.stand_in.script import play, refuse
from attune.trial.stand_in.voices import load_voice

CONFIG = "stand_in.json"
_JOB = TypeAdapter(Job)
_PACKAGES = Path(__file__).resolve().parents[3]


def stand_in_command(job: Job, *, fault: Fault | None = None, pace: float = 0.0) -> Command:
    """The command that plays `job`, for any launcher.

    Args:
        job: what to play.
        fault: what goes wrong.
        pace: seconds to wait for each simulated second.
    """
    words = ["--config", CONFIG, "--pace", str(pace)]
    if fault is not None:
        words += ["--fault", fault.name, "--at-step", str(fault.step)]
    return Command(
        argv=("-m", "attune.trial.stand_in", *words),
        environment={"PYTHONPATH": str(_PACKAGES)},
        files={CONFIG: _JOB.dump_json(job, indent=2).decode()},
        processes_per_node=job.cluster.per_node,
        nodes=job.cluster.nodes,
        simulated=True,
    )


def performance_of(job: Job) -> Performance:
    """How the job's virtual cluster runs its layout."""
    from attune.virtual import VirtualCluster

    virtual = job.virtual
    cluster = VirtualCluster(
        job.model, job.cluster, job.workload, kind=virtual.kind, seed=virtual.seed
    )
    return cluster.play(job.layout, job.run)


def lines_of(job: Job, fault: Fault | None = None) -> Iterator[Line]:
    """The lines of a played run; a layout that the framework rejects is refused at the start."""
    from attune.layout.rules import Setting, broken_rules

    voice = load_voice(job)
    if job.probe is not None:
        from attune.trial.stand_in.probes import play_probe

        return play_probe(job, job.probe, voice)
    setting = Setting.of(job.model, job.cluster, job.workload, job.framework, job.setup.version)
    refused = [b for b in broken_rules(setting, job.layout) if not b.rule.silent]
    if refused:
        return refuse(job, voice, refused[0].message)
    return play(job, performance_of(job), voice, fault)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code of this rank; without RANK in the environment, all ranks speak here."""
    given = _parser().parse_args(arguments)
    try:
        job = _JOB.validate_json(given.config.read_bytes())
    except (OSError, ValidationError) as error:
        raise AttuneError(f"cannot read {given.config}: {error}") from error
    fault = Fault(name=given.fault, step=given.at_step) if given.fault else None
    rank = os.environ.get("RANK")
    for line in lines_of(job, fault):
        _wait(line, given.pace)
        if rank is None or line.rank == int(rank):
            print(line.text, flush=True)
            if line.exit_code is not None:
                return _end(line.exit_code)
    return 0


def _wait(line: Line, pace: float) -> None:
    if math.isinf(line.after_s):
        signal.pause()
    time.sleep(line.after_s * pace)


def _end(exit_code: int) -> int:
    sys.stdout.flush()
    if exit_code < 0:
        os.kill(os.getpid(), -exit_code)
    return exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="attune.trial.stand_in", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="job to play, as JSON")
    parser.add_argument("--fault", choices=get_args(FaultName), help="what goes wrong")
    parser.add_argument("--at-step", type=int, default=3, help="step of the fault, from 0")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds per simulated second")
    return parser
