"""Memory probes: when they are worth their price, and what they teach."""

from __future__ import annotations

from pathlib import Path

import pytest

from attune.experiment.events import Completed, Finished, Probed, Proposed
from attune.layout import LayoutTable, parse_layout
from attune.search import campaign
from attune.search.fidelities import Prices, Reading, best_buy
from attune.search.prober import load_prober
from attune.trial.job import Job, Virtual
from attune.trial.launchers.simulated import SimulatedLauncher
from attune.trial.runner import run
from attune.verbs.tune import TuneRequest, tune
from attune.virtual import VirtualCluster

PRICES = Prices(trial=30.0, failed=10.0, probe=1.0)


def test_a_probe_is_bought_where_the_trial_is_likely_to_fail() -> None:
    assert best_buy(0.02, 0.99, PRICES) == "trial"
    assert best_buy(0.02, 0.5, PRICES) == "memory probe"
    assert best_buy(0.02, 0.1, PRICES) == "memory probe"


def test_a_probe_as_dear_as_a_failed_trial_is_never_bought() -> None:
    for p_fits in (0.01, 0.5, 1.0):
        assert best_buy(0.02, p_fits, Prices(trial=30.0, failed=10.0, probe=10.0)) == "trial"


class VirtualProber:
    """Reads the virtual cluster's truth."""

    gpus = 1

    def __init__(self) -> None:
        self.asked: list[str] = []

    def probe_memory(self, job: Job, stage: int, directory: Path) -> Reading:
        virtual = VirtualCluster(
            job.model, job.cluster, job.workload, job.virtual.kind, job.virtual.seed
        )
        truth = virtual.truth(LayoutTable.of([job.layout]))
        fits = bool(truth.fits[0])
        return Reading(
            fits=fits,
            peak_gib=float(truth.peak_gib[0, stage]) - 2 if fits else None,
            gpu_hours=0.1,
            provenance="predicted",
        )


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> VirtualProber:
    monkeypatch.setenv("ATTUNE_HOME", str(tmp_path))
    prober = VirtualProber()
    monkeypatch.setattr(campaign, "load_prober", lambda inputs, launcher: prober)
    return prober


@pytest.fixture
def asked() -> TuneRequest:
    return TuneRequest(
        model="qwen3-30b-a3b",
        gpu="h100",
        count=16,
        launcher="simulated",
        trials=5,
        virtual="far",
        seed=1,
        name="probed",
        fix=("tp=1", "cp=1", "etp=1", "vpp=1", "optimizer_offload=0", "dispatcher=alltoall"),
    )


def test_what_a_probe_refuses_is_never_tried(probed: VirtualProber, asked: TuneRequest) -> None:
    events = list(tune(asked).events())
    probes = [e for e in events if isinstance(e, Probed)]
    assert probes, "the winner lies at the edge of memory"
    refused = {e.layout for e in probes if e.fits is False}
    tried = {e.layout for e in events if isinstance(e, Proposed)}
    assert not refused & tried
    assert len({e.layout for e in probes}) == len(probes)
    assert all(e.spared_gpu_hours > 0 for e in probes if e.fits is False)
    done = events[-1]
    assert isinstance(done, Completed)
    spent = sum(e.gpu_hours for e in events if isinstance(e, Finished | Probed))
    assert done.gpu_hours == pytest.approx(spent)


def test_a_played_probe_reads_what_the_trial_would_need(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: TuneRequest
) -> None:
    monkeypatch.setenv("ATTUNE_HOME", str(tmp_path))
    inputs = tune(asked).inputs
    launcher = SimulatedLauncher()
    prober = load_prober(inputs, launcher)
    assert prober is not None and prober.gpus == 8
    layout = parse_layout("tp=1 pp=2 ep=8 etp=1")
    job = Job(
        model=inputs.model,
        cluster=inputs.cluster,
        workload=inputs.workload,
        layout=layout,
        virtual=Virtual(kind="near", seed=3),
    )
    reading = prober.probe_memory(job, 1, tmp_path / "probe")
    whole = run(job, launcher, tmp_path / "whole")
    assert reading.provenance == "predicted" and reading.fits is not None
    if reading.fits:
        virtual = VirtualCluster(inputs.model, inputs.cluster, inputs.workload, "near", 3)
        assert reading.peak_gib == pytest.approx(virtual.play(layout).reserved_gib[1], rel=0.03)
        assert 0 < reading.gpu_hours < whole.gpu_hours
    else:
        assert whole.outcome == "out_of_memory"


def test_one_node_and_no_probes_have_no_prober(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: TuneRequest
) -> None:
    monkeypatch.setenv("ATTUNE_HOME", str(tmp_path))
    inputs = tune(asked).inputs
    launcher = SimulatedLauncher()
    assert load_prober(inputs.model_copy(update={"probes": False}), launcher) is None
    one_node = inputs.cluster.model_copy(update={"count": 8})
    assert load_prober(inputs.model_copy(update={"cluster": one_node}), launcher) is None


def test_without_probes_none_is_bought(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: TuneRequest
) -> None:
    monkeypatch.setenv("ATTUNE_HOME", str(tmp_path))
    fields = {**vars(asked), "probes": False, "trials": 1}
    events = list(tune(TuneRequest(**fields)).events())
    assert not [e for e in events if isinstance(e, Probed)]
