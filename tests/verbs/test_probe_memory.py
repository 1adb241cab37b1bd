from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attune.errors import AttuneError, LayoutError
from attune.layout import parse_layout
from attune.report.probe import memory_probe_data
from attune.trial.frameworks import load_framework
from attune.trial.job import Job
from attune.trial.launchers import load_launcher
from attune.trial.probe import MemoryProbe
from attune.trial.result import RankMemory, Step, TrialResult
from attune.trial.runner import run
from attune.verbs import probe_memory as module
from attune.verbs.calibration import show_calibrations
from attune.verbs.probe_memory import chosen_ranks, one_gpu, probe_memory
from attune.verbs.target import Target, find_target
from attune.verbs.trial import ChosenLauncher

LAYOUT = parse_layout("tp=4 pp=16 ep=8 first=5 last=3")
SIMULATED = ChosenLauncher(name="simulated", reason="asked")


@pytest.fixture
def glm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    monkeypatch.setenv("ATTUNE_HOME", str(tmp_path))
    return find_target("glm-4.5", "h200", 128)


def test_worst_stage_is_probed_and_fits(glm: Target) -> None:
    found = probe_memory(glm, LAYOUT, launcher=SIMULATED)
    (rank,) = found.ranks
    assert rank.stage == found.worst_stage == 1 and rank.rank == 8
    assert found.fits and rank.result.provenance == "predicted"
    assert rank.result.probe == "memory" and rank.result.gpus == 1
    assert rank.result.tokens_per_s_per_gpu is None
    assert (rank.directory / "trial.yaml").read_text().count("rank: 8") == 1
    assert show_calibrations() == (), "a virtual cluster teaches nothing"
    assert memory_probe_data(found)["fits"] is True


def test_every_stage_in_its_own_directory(glm: Target) -> None:
    seen: list[Any] = []
    layout = parse_layout("tp=2 pp=8 ep=8 first=12 last=8")
    found = probe_memory(glm, layout, rank="all-stages", launcher=SIMULATED, watch=seen.append)
    assert [one.stage for one in found.ranks] == list(range(8)) and len(seen) == 8
    assert found.fits is False
    outcomes = {one.stage: one.result.outcome for one in found.ranks}
    assert outcomes[1] == "out_of_memory" and outcomes[7] == "completed"
    failed = found.ranks[1]
    assert failed.result.rank == 16 and failed.result.phase == "forward"
    assert failed.allocated_gib is None and failed.device_gib is None
    assert len({one.directory for one in found.ranks}) == 8


def test_ranks_by_name_and_number() -> None:
    assert chosen_ranks("worst", LAYOUT, 128, 1) == (8,)
    assert chosen_ranks("all-stages", LAYOUT, 128, 1) == tuple(range(0, 128, 8))
    assert chosen_ranks("127", LAYOUT, 128, 1) == (127,)
    for wrong in ("128", "-1", "best", "", "1.5", "²"):
        with pytest.raises(AttuneError, match="rank must be worst, all-stages or 0 to 127"):
            chosen_ranks(wrong, LAYOUT, 128, 1)


def test_bad_input_starts_nothing(glm: Target, tmp_path: Path) -> None:
    with pytest.raises(LayoutError, match="first=5 last=3"):
        probe_memory(glm, parse_layout("tp=4 pp=16 ep=8"), launcher=SIMULATED)
    with pytest.raises(LayoutError, match=r"grid\.world_divides"):
        probe_memory(glm, parse_layout("tp=3"), launcher=SIMULATED)
    with pytest.raises(AttuneError, match="rank must be"):
        probe_memory(glm, LAYOUT, rank="999", launcher=SIMULATED)
    assert not list(tmp_path.iterdir())


def test_model_that_the_worker_cannot_build_is_named(glm: Target) -> None:
    target = find_target("gpt-oss-120b", "cpu", 8, changes={"precision": "fp32"})
    with pytest.raises(LayoutError, match="gpt-oss-120B has attention sinks"):
        probe_memory(target, parse_layout("ep=8"), launcher=SIMULATED)


def test_the_worker_counts_the_ranks_of_the_whole_layout(glm: Target) -> None:
    """What it refuses is judged for 128 ranks, though one process runs."""
    framework = load_framework("megatron-core")
    job = Job(
        model=glm.model,
        cluster=one_gpu(glm).cluster,
        workload=glm.workload,
        layout=LAYOUT,
        probe=MemoryProbe(world=128, rank=8),
    )
    assert framework.refuses(job) is None
    assert framework.prepare(job).processes_per_node == 1
    reason = framework.refuses(replace(job, probe=MemoryProbe(world=96, rank=8)))
    assert reason is not None and "64" in reason


def test_without_torch_the_remedy_is_said(glm: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    from attune.trial.launchers import local

    monkeypatch.setattr(local, "_installed", lambda module: False)
    with pytest.raises(AttuneError, match=r"pip install attune\[train\]"):
        probe_memory(glm, LAYOUT, launcher=ChosenLauncher(name="local", reason="asked"))


def test_measured_peaks_are_learnt(glm: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next prediction is nearer to what the device's allocator held."""

    def measured(job: Any, launcher: Any, directory: Path) -> TrialResult:
        peak = RankMemory(rank=8, stage=1, allocated_gib=125.0, reserved_gib=130.0)
        return TrialResult(
            outcome="completed",
            steps=tuple(Step(step=i, seconds=1.0) for i in range(2)),
            ranks=(peak,),
            probe="memory",
            steps_asked=2,
            tokens_per_step=1,
            gpus=1,
            wall_s=60.0,
            provenance="measured",
            hardware="h200",
            launcher="local",
        )

    monkeypatch.setattr(module, "run", measured)
    local = ChosenLauncher(name="local", reason="asked")
    first = probe_memory(glm, LAYOUT, launcher=local)
    assert first.learnt.trials == 1
    second = probe_memory(glm, LAYOUT, launcher=local)
    before, after = (found.ranks[0].predicted.reserved_gib for found in (first, second))
    assert before < after < 130.0
    # 130 GiB and what lies outside the allocator: context and communicators.
    assert 130.0 < (second.ranks[0].device_gib or 0.0) < 139.8
    assert second.fits


def test_other_frameworks_run_no_probes(glm: Target, tmp_path: Path) -> None:
    job = Job(
        model=glm.model,
        cluster=one_gpu(glm).cluster,
        workload=glm.workload,
        layout=LAYOUT,
        framework="megatron-lm",
        probe=MemoryProbe(world=128, rank=8),
    )
    with pytest.raises(AttuneError, match="runs no probes; use framework megatron-core"):
        run(job, load_launcher("simulated"), tmp_path / "probe")
