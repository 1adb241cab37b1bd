"""Runs jobs on Kubernetes, as TrainJobs of Kubeflow Trainer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from attune.errors import AttuneError
from attune.trial.frameworks.framework import Command
from attune.trial.job import Job
from attune.trial.launchers.kubernetes_api import KubernetesSilentError, TrainJobs
from attune.trial.launchers.kubernetes_job import KubernetesHandle
from attune.trial.launchers.kubernetes_manifest import affinity_without, fill, pod_script
from attune.trial.launchers.options import LauncherOptions, read_options, read_template, without
from attune.trial.launchers.record import LaunchRecord, begin_launch, finish_launch, read_launch
from attune.trial.result import Provenance


class KubernetesOptions(LauncherOptions):
    """What a site tells about its Kubernetes cluster."""

    image: str = ""
    """Container image with attune, the trainer and torch; needed unless the template names one."""
    namespace: str = "default"
    context: str | None = None
    """Context of the kubeconfig [its current one]."""
    runtime: str = "torch-distributed"
    """ClusterTrainingRuntime of the jobs."""
    gpu_resource: str = "nvidia.com/gpu"
    python: str = "python3"


@dataclass(frozen=True)
class KubernetesLauncher:
    """TrainJobs of a Kubernetes cluster; logs come through its interface, no disk is shared."""

    options: KubernetesOptions

    name = "kubernetes"
    provenance: Provenance = "measured"

    @classmethod
    def of(cls, given: Mapping[str, object]) -> KubernetesLauncher:
        """A launcher with these options.

        Raises:
            AttuneError: an option is wrong.
        """
        return cls(read_options(KubernetesOptions, cls.name, given))

    @property
    def queue_limit_s(self) -> float:
        return self.options.queue_limit_s

    def excluding(self, nodes: tuple[str, ...]) -> KubernetesLauncher:
        return replace(self, options=without(self.options, nodes))

    def check(self, job: Job, modules: tuple[str, ...]) -> None:
        if not self.options.image and "$image" in read_template(self.options, "trainjob.yaml"):
            raise AttuneError(
                "launcher kubernetes needs a container image with attune and the trainer; pass "
                "--launcher-option image=REGISTRY/NAME:TAG"
            )
        self._jobs().check()

    def start(self, job: Job, command: Command, directory: Path) -> KubernetesHandle:
        if command.starter == "ray_driver":
            raise AttuneError(
                f"launcher kubernetes starts torchrun, and framework {job.framework} needs a Ray "
                "cluster; use --launcher ray on one (KubeRay gives it)"
            )
        jobs = self._jobs()
        record = begin_launch(self.name, directory)
        manifest = self.manifest(job, command, record.name)
        text = yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True)
        (directory / "trainjob.yaml").write_text(text, encoding="utf-8")
        jobs.create(manifest)
        return self._handle(jobs, finish_launch(record, record.name, directory), directory)

    def attach(self, job: Job, directory: Path) -> KubernetesHandle | None:
        record = read_launch(self.name, directory)
        if record is None:
            return None
        jobs = self._jobs()
        # attune chose the job's name itself, so it is known from before the submission.
        try:
            found = jobs.read(record.name)
        except KubernetesSilentError as error:
            raise AttuneError(f"the Kubernetes cluster does not answer: {error}") from error
        if found is None:
            return None
        return self._handle(jobs, record, directory)

    def _jobs(self) -> TrainJobs:
        return TrainJobs.of(self.options.namespace, self.options.context)

    def _handle(self, jobs: TrainJobs, record: LaunchRecord, directory: Path) -> KubernetesHandle:
        return KubernetesHandle(jobs, record.name, directory.resolve(), self.options.poll_s)

    def manifest(self, job: Job, command: Command, name: str) -> dict[str, object]:
        """The TrainJob of that name that runs a command.

        Raises:
            AttuneError: the template is damaged, or the files are too large for a manifest.
        """
        options, cluster = self.options, job.cluster
        on_cpu = cluster.gpu.architecture == "cpu"
        resource = "cpu" if on_cpu else options.gpu_resource
        words = {
            "name": name,
            "image": options.image,
            "runtime": options.runtime,
            "nodes": command.nodes,
            "processes": command.processes_per_node,
            "resources": {resource: str(cluster.per_node)},
            # The deadline counts from the creation, so it holds the wait for nodes as well.
            "deadline_s": math.ceil(job.limit_s + options.queue_limit_s),
            "affinity": affinity_without(options.exclude),
            "script": pod_script(command, name=name, python=options.python),
        }
        return fill(read_template(options, "trainjob.yaml"), words)
