"""Runs jobs on a Ray cluster, by its Job Submission interface."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import Field

from attune.errors import AttuneError
from attune.trial.frameworks.framework import Command
from attune.trial.job import Job
from attune.trial.launchers.local import refuse_missing
from attune.trial.launchers.node_script import write_node_script
from attune.trial.launchers.options import LauncherOptions, read_options, without
from attune.trial.launchers.ray_job import RayHandle
from attune.trial.launchers.record import LaunchRecord, begin_launch, finish_launch, read_launch
from attune.trial.result import Provenance

PROGRAM = Path(__file__).with_name("ray_program.py")
"""What Ray runs for a torchrun job: it reads `ray_job.json` of its folder."""
_SPARE_S = 120.0
"""Added to the time limit that the driver is told: attune's own comes first."""


class RayOptions(LauncherOptions):
    """What a site tells about its Ray cluster."""

    address: str | None = None
    """Of the dashboard (`http://head:8265`), or of the cluster [RAY_ADDRESS, or the local one]."""
    cpus: float = Field(1.0, ge=0)
    """CPUs of a node that a job of GPUs asks for beside them."""


@dataclass(frozen=True)
class RayLauncher:
    """Jobs of a Ray cluster; every node sees the trial directory under the same path."""

    options: RayOptions

    name = "ray"
    provenance: Provenance = "measured"

    @classmethod
    def of(cls, given: Mapping[str, object]) -> RayLauncher:
        """A launcher with these options.

        Raises:
            AttuneError: an option is wrong.
        """
        return cls(read_options(RayOptions, cls.name, given))

    @property
    def queue_limit_s(self) -> float:
        return self.options.queue_limit_s

    def excluding(self, nodes: tuple[str, ...]) -> RayLauncher:
        return replace(self, options=without(self.options, nodes))

    def check(self, job: Job, modules: tuple[str, ...]) -> None:
        if self.options.python == sys.executable:
            refuse_missing(modules)
        self.reach()

    def reach(self) -> None:
        """See that the cluster answers.

        Raises:
            AttuneError: it does not, or the client is not installed.
        """
        self._client()

    def start(self, job: Job, command: Command, directory: Path) -> RayHandle:
        client = self._client()
        record = begin_launch(self.name, directory)
        runtime = {"env_vars": command.environment} if command.starter == "ray_driver" else {}
        try:
            client.submit_job(
                entrypoint=self._prepare(job, command, directory.resolve()),
                submission_id=record.name,
                runtime_env=runtime,
            )
        except (RuntimeError, OSError) as error:
            # It may have taken the job before the answer was lost.
            if not _knows(client, record.name):
                said = " ".join(str(error).split())
                raise AttuneError(f"Ray refuses the job: {said}") from error
        return self._handle(client, finish_launch(record, record.name, directory), directory)

    def attach(self, job: Job, directory: Path) -> RayHandle | None:
        record = read_launch(self.name, directory)
        if record is None:
            return None
        client = self._client()
        try:
            # attune chose the job's name itself, so it is known from before the submission.
            client.get_job_info(record.name)
        except RuntimeError as error:
            if "404" in str(error) or "not exist" in str(error):
                return None
            raise AttuneError(f"Ray does not answer: {error}; try again later") from error
        return self._handle(client, record, directory)

    def _handle(self, client: Any, record: LaunchRecord, directory: Path) -> RayHandle:
        return RayHandle(client, record.name, directory.resolve(), self.options.poll_s)

    def _prepare(self, job: Job, command: Command, place: Path) -> str:
        """Writes what the job needs; gives the shell words that start it on the head node."""
        python = self.options.python
        limit_s = self._limit_s(job)
        into = f"cd {shlex.quote(str(place))} && exec"
        if command.starter != "torchrun":
            # The driver itself is the program: it finds the cluster by RAY_ADDRESS.
            once = replace(command, starter="program")
            write_node_script(once, place, python=python, mode="keep")
            keep = f"timeout --foreground {limit_s:.0f} env ATTUNE_NODE=0 sh node.sh"
            return f"{into} {keep} >> logs/launcher.log 2>&1"
        write_node_script(command, place, python=python, mode="supervise")
        (place / PROGRAM.name).write_text(PROGRAM.read_text(encoding="utf-8"), encoding="utf-8")
        needs = self.needs(job, str(place))
        (place / "ray_job.json").write_text(json.dumps(needs, indent=2), encoding="utf-8")
        words = f"{shlex.quote(python)} -u {PROGRAM.name}"
        return f"{into} {words} >> logs/launcher.log 2>&1"

    def needs(self, job: Job, directory: str) -> dict[str, object]:
        """`ray_job.json`: the trial directory, and what of each node the job asks for."""
        cluster = job.cluster
        gpus = {"GPU": float(cluster.per_node), "CPU": self.options.cpus}
        on_cpu = cluster.gpu.architecture == "cpu"
        return {
            "directory": directory,
            "nodes": cluster.nodes,
            "resources": {"CPU": float(cluster.per_node)} if on_cpu else gpus,
            "exclude": self.options.exclude,
            "limit_s": self._limit_s(job),
        }

    def _limit_s(self, job: Job) -> float:
        return job.limit_s + _SPARE_S

    def _client(self) -> Any:
        try:
            from ray.job_submission import JobSubmissionClient
        except ImportError as error:
            raise AttuneError(
                "launcher ray needs the Ray client; run `pip install attune[ray]`"
            ) from error
        address = self.options.address or os.environ.get("RAY_ADDRESS") or "auto"
        try:
            return JobSubmissionClient(address)
        except (RuntimeError, OSError, ValueError) as error:
            raise AttuneError(
                f"no Ray cluster answers at `{address}`: {' '.join(str(error).split())[:200]}; "
                "pass --launcher-option address=http://HEAD:8265"
            ) from error


def _knows(client: Any, name: str) -> bool:
    try:
        client.get_job_info(name)
    except (RuntimeError, OSError):
        return False
    return True
