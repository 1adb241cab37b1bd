"""Says what of attune works on this machine, and what to do about the rest."""

from __future__ import annotations

import os
import platform
import shutil
import socket
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from urllib.parse import urlsplit

from attune import __version__
from attune.errors import AttuneError
from attune.experiment import experiments_folder
from attune.report.doctor import Finding
from attune.trial.launchers.choose import installed_gpus

_PACKAGES = {
    "torch": "pip install attune[train]",
    "megatron-core": "pip install attune[train]",
    "transformer-engine": "for fp8 and fused kernels: pip install transformer-engine[pytorch]",
    "optuna": "pip install attune",
    "ray": "for --launcher ray: pip install attune[ray]",
    "kubernetes": "for --launcher kubernetes: pip install attune[kubernetes]",
}
"""Packages that attune may use, and how to get each."""
_ANSWER_S = 3.0
"""How long a scheduler's address may take to accept a connection."""


def doctor() -> tuple[Finding, ...]:
    """All findings, in the order in which a person would look."""
    return (
        _found(
            "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"
        ),
        _found("attune", __version__),
        *(_package(name, advice) for name, advice in _PACKAGES.items()),
        _safely("GPUs", _gpus),
        _safely("launcher local", _local),
        _safely("launcher slurm", _slurm),
        _safely("launcher ray", _ray),
        _safely("launcher kubernetes", _kubernetes),
        _found("launcher simulated", "always: a virtual cluster, every figure is predicted"),
        _safely("results", _results),
    )


def _found(name: str, words: str) -> Finding:
    return Finding(name=name, works=True, found=words)


def _missing(name: str, words: str, advice: str) -> Finding:
    return Finding(name=name, works=False, found=words, advice=advice)


def _safely(name: str, look: Callable[[str], Finding]) -> Finding:
    try:
        return look(name)
    except AttuneError as error:
        words, _, advice = str(error).rpartition("; ")
        return _missing(name, words or str(error), advice if words else "")


def _package(name: str, advice: str) -> Finding:
    try:
        return _found(name, version(name))
    except PackageNotFoundError:
        return _missing(name, "not installed", advice)


def _gpus(name: str) -> Finding:
    parts = [part.name for part in installed_gpus()]
    if not parts:
        return _missing(name, "none of NVIDIA", "tiny models train on `--gpu cpu` all the same")
    counted = (f"{parts.count(kind)} x {kind}" for kind in dict.fromkeys(parts))
    return _found(name, ", ".join(counted))


def _local(name: str) -> Finding:
    from attune.trial.launchers.local import refuse_missing

    refuse_missing(("megatron.core",))
    return _found(name, f"torchrun on this machine, {os.cpu_count()} CPUs")


def _slurm(name: str) -> Finding:
    from attune.trial.launchers.slurm_commands import SlurmSilentError, call

    if shutil.which("sbatch") is None:
        return _missing(name, "no sbatch", "run attune on a login node of the cluster")
    try:
        nodes = call("sinfo", "--noheader", "--format=%D").split()
    except SlurmSilentError as error:
        return _missing(name, f"does not answer: {error}", "ask your administrator, or try later")
    inside = os.environ.get("SLURM_JOB_ID")
    within = f", inside allocation {inside}" if inside else ""
    return _found(
        name, f"{call('sinfo', '--version').strip()}, {sum(map(int, nodes))} nodes{within}"
    )


def _ray(name: str) -> Finding:
    from attune.trial.launchers.ray import RayLauncher

    address = os.environ.get("RAY_ADDRESS", "")
    if not address:
        return _missing(name, "no RAY_ADDRESS", "set it, or pass --launcher-option address=")
    place = urlsplit(address if "//" in address else f"//{address}")
    try:
        socket.create_connection((place.hostname or "", place.port or 8265), _ANSWER_S).close()
    except OSError as error:
        return _missing(name, f"{address}: {error}", "is the cluster up, and the port open?")
    RayLauncher.of({}).reach()
    return _found(name, f"answers at {address}")


def _kubernetes(name: str) -> Finding:
    from attune.trial.launchers.kubernetes_api import TrainJobs

    TrainJobs.of("default", None).check()
    return _found(name, "answers, and knows TrainJobs; no run was tried")


def _results(name: str) -> Finding:
    folder = experiments_folder().resolve()
    place = next(part for part in (folder, *folder.parents) if part.exists())
    if not os.access(place, os.W_OK):
        return _missing(name, f"{place} cannot be written", "set ATTUNE_HOME")
    free = shutil.disk_usage(place).free / 1e9
    return _found(name, f"{folder}, {free:.0f} GB free")
