"""Runs jobs on a Slurm cluster: by sbatch, or by srun inside an allocation."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from attune.errors import AttuneError
from attune.trial.frameworks.framework import Command
from attune.trial.job import Job
from attune.trial.launchers import slurm_commands as slurm
from attune.trial.launchers.launcher import Handle
from attune.trial.launchers.local import refuse_missing
from attune.trial.launchers.node_script import write_node_script
from attune.trial.launchers.options import (
    LauncherOptions,
    Words,
    read_options,
    read_template,
    without,
)
from attune.trial.launchers.record import LaunchRecord, begin_launch, finish_launch, read_launch
from attune.trial.launchers.slurm_allocation import Allocation, attach_step, start_step
from attune.trial.launchers.slurm_job import SlurmHandle
from attune.trial.launchers.slurm_script import EXIT_CODE, head_of, write_job_script
from attune.trial.result import Provenance

_SPARE_MINUTES = 2
"""Added to the time limit that Slurm is told: attune's own comes first, Slurm's is the last
resort where attune is gone, and it looks only every half minute."""


class SlurmOptions(LauncherOptions):
    """What a site tells about its Slurm."""

    mode: Literal["auto", "sbatch", "srun"] = "auto"
    """`srun` starts steps inside the allocation that attune runs in; `auto` does so in one."""
    partition: str | None = None
    account: str | None = None
    reservation: str | None = None
    qos: str | None = None
    gres: str | None = None
    """Generic resources of a node [`gpu:` and the GPUs of a node; none for `cpu`]; `none` asks for
    none, where a site gives GPUs with the node."""
    exclusive: bool = True
    """Whether a job that fills its nodes' GPUs takes them whole."""
    sbatch: Words = ()
    """More words for sbatch."""


@dataclass(frozen=True)
class SlurmLauncher:
    """Jobs of a Slurm cluster, or steps of the allocation that attune runs in."""

    options: SlurmOptions
    allocation: Allocation | None

    name = "slurm"
    provenance: Provenance = "measured"

    @classmethod
    def of(cls, given: Mapping[str, object]) -> SlurmLauncher:
        """A launcher with these options.

        Raises:
            AttuneError: an option is wrong, or attune is in no allocation and is asked for one.
        """
        options = read_options(SlurmOptions, cls.name, given)
        number = os.environ.get("SLURM_JOB_ID")
        if options.mode == "srun" and not number:
            raise AttuneError(
                "launcher slurm with mode=srun starts runs inside an allocation, and there is none "
                "here; run attune under salloc or sbatch, or leave `mode` out"
            )
        inside = number is not None and options.mode != "sbatch"
        return cls(options, Allocation(number or "") if inside else None)

    @property
    def queue_limit_s(self) -> float:
        return self.options.queue_limit_s if self.allocation is None else math.inf

    def excluding(self, nodes: tuple[str, ...]) -> SlurmLauncher:
        return replace(self, options=without(self.options, nodes))

    def check(self, job: Job, modules: tuple[str, ...]) -> None:
        if self.options.python == sys.executable:
            refuse_missing(modules)
        if self.allocation is not None:
            self.allocation.check(job.cluster.nodes, self.options.exclude)
            return
        orders = self.orders(job)
        try:
            slurm.patiently(lambda: slurm.call("sbatch", "--test-only", *orders, "--wrap=true"))
        except AttuneError as error:
            raise AttuneError(
                f"Slurm refuses {job.cluster.nodes} nodes: {error}; mend it by "
                "--launcher-option partition=, account=, gres=, ..."
            ) from error

    def start(self, job: Job, command: Command, directory: Path) -> Handle:
        record = begin_launch(self.name, directory)
        mode: Literal["supervise", "keep"] = "keep" if self.allocation is None else "supervise"
        write_node_script(command, directory, python=self.options.python, mode=mode)
        template = read_template(self.options, "slurm.sh")
        if self.allocation is not None:
            return start_step(
                self.allocation,
                self.options.exclude,
                directory,
                record=record,
                nodes=job.cluster.nodes,
                gres=self._gres(job),
                template=template,
            )
        script = write_job_script(
            directory,
            template=template,
            name=record.name,
            srun=("--input=none", f"--ntasks={job.cluster.nodes}"),
            head=head_of('"$SLURM_JOB_NODELIST"'),
        )
        record = finish_launch(record, self._submit(job, record, directory, script), directory)
        return self._handle(record, directory)

    def attach(self, job: Job, directory: Path) -> Handle | None:
        record = read_launch(self.name, directory)
        if record is None:
            return None
        # A step's number is that of its process; steps end with the attune that started them.
        if (directory / "job.sh").exists() and "supervise" in _text(directory / "node.sh"):
            attach_step(record)
            return None
        number = record.job_id or slurm.patiently(lambda: slurm.find(record.name))
        if number is None:
            return None
        known = slurm.patiently(lambda: slurm.ask(number)) is not None
        if not known and not (directory / EXIT_CODE).exists():
            return None
        return self._handle(record.model_copy(update={"job_id": number}), directory)

    def _handle(self, record: LaunchRecord, directory: Path) -> SlurmHandle:
        assert record.job_id is not None
        return SlurmHandle(record.job_id, directory.resolve(), self.options.poll_s)

    def _submit(self, job: Job, record: LaunchRecord, directory: Path, script: Path) -> str:
        arguments = (
            f"--job-name={record.name}",
            f"--chdir={directory.resolve()}",
            "--output=logs/launcher.log",
            "--open-mode=append",
            *self.orders(job),
        )
        try:
            return slurm.submit((*arguments, str(script.resolve())))
        except slurm.SlurmSilentError as error:
            # It may have taken the job before it fell silent.
            if number := slurm.patiently(lambda: slurm.find(record.name)):
                return number
            raise AttuneError(f"Slurm did not take the job: {error}; try again later") from error

    def orders(self, job: Job) -> tuple[str, ...]:
        """What sbatch is told of a job: nodes, time limit, and what the site wants."""
        options, cluster = self.options, job.cluster
        named = {
            "partition": options.partition,
            "account": options.account,
            "reservation": options.reservation,
            "qos": options.qos,
            "gres": self._gres(job),
            "exclude": ",".join(options.exclude) or None,
        }
        whole = options.exclusive and cluster.per_node == cluster.gpu.per_node
        return (
            f"--nodes={cluster.nodes}",
            "--ntasks-per-node=1",
            f"--time={math.ceil(job.limit_s / 60) + _SPARE_MINUTES}",
            "--no-requeue",
            *(("--exclusive",) if whole else ()),
            *(f"--{name}={value}" for name, value in named.items() if value),
            *options.sbatch,
        )

    def _gres(self, job: Job) -> str | None:
        if self.options.gres is not None:
            return None if self.options.gres == "none" else self.options.gres
        cluster = job.cluster
        return None if cluster.gpu.architecture == "cpu" else f"gpu:{cluster.per_node}"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
