"""Which launcher fits a cluster and this machine; simulated only where no real one could."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from attune.catalog import Cluster, Gpu
from attune.errors import AttuneError

_QUERY_LIMIT_S = 20.0
_SAME_MEMORY = 0.1
"""Share by which the memory of one GPU type may differ from the catalogue's (ECC, MIG off)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Installed:
    """One GPU of this machine."""

    name: str
    memory_gib: float


def choose_launcher(cluster: Cluster) -> tuple[str, str]:
    """The launcher's name, and why, in words.

    Raises:
        AttuneError: a scheduler or GPUs are here, but not in a way that attune can decide about.
    """
    gpu = cluster.gpu
    if gpu.architecture == "cpu":
        return "local", "the CPUs of this machine train"
    installed = installed_gpus()
    same = [part for part in installed if is_same(part, gpu)]
    if len(same) >= cluster.count:
        return "local", f"this machine has {len(same)} {gpu.name}"
    if (scheduler := find_scheduler()) is not None:
        return scheduler
    if installed:
        found = f"{len(installed)} x {installed[0].name}"
        raise AttuneError(
            f"this machine has {found}, not {cluster.count} {gpu.name}; pass --gpu and --count of "
            "what is here, or `--launcher simulated` for predictions only"
        )
    if Path("/dev/kfd").exists():
        raise AttuneError(
            "this machine has AMD GPUs, which attune cannot count; pass `--launcher local` or "
            "`--launcher simulated`"
        )
    return "simulated", f"no {gpu.name} and no scheduler on this machine"


def find_scheduler() -> tuple[str, str] | None:
    """The launcher of Slurm, Kubernetes or Ray, if this machine can submit to one, and why."""
    if os.environ.get("SLURM_JOB_ID") and shutil.which("srun"):
        return "slurm", f"attune runs in Slurm allocation {os.environ['SLURM_JOB_ID']}"
    if shutil.which("sbatch") and not _lacks_configuration():
        return "slurm", "sbatch is on this machine"
    if os.environ.get("RAY_ADDRESS") or Path("/tmp/ray/ray_current_cluster").exists():
        return "ray", "a Ray cluster is reachable from this machine"
    config = os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config"
    in_pod = "KUBERNETES_SERVICE_HOST" in os.environ
    if shutil.which("kubectl") and (in_pod or Path(config).exists()):
        return "kubernetes", "kubectl and a way to its cluster are on this machine"
    return None


def _lacks_configuration() -> bool:
    """Whether Slurm's commands lie here without a cluster: they find no configuration at all.

    A controller that is configured and does not answer is a scheduler all the same.
    """
    program = shutil.which("scontrol")
    if program is None:
        return False
    try:
        words = [program, "ping"]
        told = subprocess.run(words, capture_output=True, text=True, timeout=_QUERY_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "establish a configuration source" in told.stderr + told.stdout


def installed_gpus() -> list[Installed]:
    """GPUs that `nvidia-smi` lists; none without it."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=_QUERY_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AttuneError(
            f"nvidia-smi does not answer ({error}); pass --launcher explicitly"
        ) from error
    rows = (line.rpartition(",") for line in answer.stdout.splitlines())
    return [
        Installed(name=name.strip(), memory_gib=float(memory) / 1024)
        for name, _, memory in rows
        if re.fullmatch(r"\s*\d+\s*", memory)
    ]


def is_same(part: Installed, gpu: Gpu) -> bool:
    """Whether the driver's name (`NVIDIA A100-SXM4-80GB`) and memory are those of `gpu`."""
    words = re.split(r"[^a-z0-9]+", part.name.lower())
    near = abs(part.memory_gib - gpu.memory_gib) <= _SAME_MEMORY * gpu.memory_gib
    return gpu.id.split("-")[0].lower() in words and near
