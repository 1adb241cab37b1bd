"""Which launcher is chosen, on machines of all kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from attune.catalog import load_cluster
from attune.errors import AttuneError
from attune.trial.launchers import choose_launcher, load_launcher


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no programs but those that a test writes into this folder."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("SLURM_JOB_ID", "RAY_ADDRESS", "KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def install(machine: Path, name: str, prints: str = "") -> None:
    path = machine / name
    path.write_text(f"#!/bin/sh\nprintf '%s' '{prints}'\n")
    path.chmod(0o755)


def gpus(count: int, name: str, mib: int) -> str:
    return f"{name}, {mib}\n" * count


def test_nothing_here_is_simulated_and_says_why(machine: Path) -> None:
    name, why = choose_launcher(load_cluster("h200", 128))
    assert name == "simulated"
    assert why == "no H200 and no scheduler on this machine"


def test_cpu_is_local_even_beside_a_scheduler(machine: Path) -> None:
    install(machine, "sbatch")
    assert choose_launcher(load_cluster("cpu", 4))[0] == "local"


@pytest.mark.parametrize(
    ("gpu", "name", "mib"),
    [
        ("h200", "NVIDIA H200", 143771),
        ("h100", "NVIDIA H100 80GB HBM3", 81559),
        ("a100-80", "NVIDIA A100-SXM4-80GB", 81920),
        ("b200", "NVIDIA B200", 183359),
    ],
)
def test_the_named_gpu_is_local(machine: Path, gpu: str, name: str, mib: int) -> None:
    install(machine, "nvidia-smi", gpus(8, name, mib))
    assert choose_launcher(load_cluster(gpu, 8))[0] == "local"


@pytest.mark.parametrize(
    ("gpu", "count", "name", "mib"),
    [
        ("h200", 128, "NVIDIA H200", 143771),
        ("h200", 8, "NVIDIA H100 80GB HBM3", 81559),
        ("b200", 4, "NVIDIA GB200", 189471),
        ("a100-40", 8, "NVIDIA A100-SXM4-80GB", 81920),
    ],
)
def test_other_or_too_few_gpus_are_an_error(
    machine: Path, gpu: str, count: int, name: str, mib: int
) -> None:
    install(machine, "nvidia-smi", gpus(8, name, mib))
    with pytest.raises(AttuneError, match="--launcher simulated"):
        choose_launcher(load_cluster(gpu, count))


def test_a_driver_without_gpus_is_no_gpu(machine: Path) -> None:
    install(machine, "nvidia-smi", "No devices were found\n")
    assert choose_launcher(load_cluster("h200", 128))[0] == "simulated"


@pytest.mark.parametrize("scheduler", ["sbatch", "kubectl", "ray", "srun"])
def test_a_scheduler_is_never_passed_over(
    machine: Path, monkeypatch: pytest.MonkeyPatch, scheduler: str
) -> None:
    if scheduler == "ray":
        monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    else:
        install(machine, scheduler)
    if scheduler == "srun":
        monkeypatch.setenv("SLURM_JOB_ID", "7")
    if scheduler == "kubectl":
        (machine / ".kube").mkdir()
        (machine / ".kube" / "config").write_text("contexts: []\n")
    name, why = choose_launcher(load_cluster("h200", 128))
    chosen = {"sbatch": "slurm", "srun": "slurm", "kubectl": "kubernetes", "ray": "ray"}
    assert name == chosen[scheduler]
    assert why


def test_slurm_without_any_configuration_is_no_scheduler(machine: Path) -> None:
    install(machine, "sbatch")
    install(machine, "scontrol", "scontrol: fatal: Could not establish a configuration source")
    assert choose_launcher(load_cluster("h200", 128))[0] == "simulated"
    install(machine, "scontrol", "Slurmctld(primary) at head is DOWN")
    assert choose_launcher(load_cluster("h200", 128))[0] == "slurm"


def test_kubectl_without_a_cluster_is_no_scheduler(machine: Path) -> None:
    install(machine, "kubectl")
    assert choose_launcher(load_cluster("h200", 128))[0] == "simulated"


def test_unknown_launcher_names_the_nearest() -> None:
    with pytest.raises(AttuneError, match="did you mean `local`"):
        load_launcher("locale")


def test_options_are_checked_by_name_and_type() -> None:
    launcher = load_launcher("slurm", {"exclude": "n[1,2],n7", "queue_limit_s": "60"})
    assert launcher.queue_limit_s == 60
    with pytest.raises(AttuneError, match="no option `partiton`; did you mean `partition`"):
        load_launcher("slurm", {"partiton": "debug"})
    with pytest.raises(AttuneError, match=r"option `poll_s` of launcher ray: .* got 'often'"):
        load_launcher("ray", {"poll_s": "often"})
    with pytest.raises(AttuneError, match="launcher local has no options, but got partition"):
        load_launcher("local", {"partition": "debug"})
