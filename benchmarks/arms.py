"""Arms of the worker for judging the checks: honest layouts and planted faults, many a launch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attune.catalog import load_cluster, load_model
from attune.layout import parse_layout
from attune.recipe.schema import Check
from attune.trial.job import Job
from attune.trial.result import Step, TrialResult
from attune.trial.torchrun import run_under_torchrun
from attune.trial.worker.config import Fault, Options, WorkerConfig, environment
from attune.verify import Verification, check_parity, read_parity, verify
from attune.workload import Optimization, Precision, Workload

LIMIT_S = 3600
"""A launch that takes longer is stopped."""
_OPTIMIZATION = Optimization(learning_rate=2e-3, min_learning_rate=2e-4)


@dataclass(frozen=True, kw_only=True)
class ArmSpec:
    """One run of a tiny model."""

    layout: str
    model: str = "tiny-moe"
    processes: int = 2
    fault: Fault | None = None
    auxiliary_loss: float = 0.0
    precision: Precision = "fp32"
    seed: int = 1234
    global_batch: int = 8

    @property
    def job(self) -> Job:
        """What the arm claims to train: the fault is not in it."""
        values = _OPTIMIZATION.model_copy(update={"auxiliary_loss": self.auxiliary_loss})
        return Job(
            model=load_model(self.model),
            cluster=load_cluster("cpu", self.processes),
            workload=Workload(
                precision=self.precision,
                row_tokens=64,
                global_batch=self.global_batch,
                seed=self.seed,
                optimization=values,
            ),
            layout=parse_layout(self.layout),
        )

    @property
    def name(self) -> str:
        """A file name that no other arm has."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]


def train(arms: Sequence[ArmSpec], folder: Path) -> None:
    """Trains the arms that `folder` does not hold yet, one launch for each number of processes.

    Raises:
        RuntimeError: a launch failed; the message ends with what it printed.
    """
    missing = [arm for arm in dict.fromkeys(arms) if not _is_whole(arm, folder)]
    for processes in sorted({arm.processes for arm in missing}):
        chosen = [arm for arm in missing if arm.processes == processes]
        file = folder / f"arms-{processes}.json"
        file.write_text(_arms_text(chosen, folder), encoding="utf-8")
        _launch(file, processes)


def judge(candidate: ArmSpec, reference: ArmSpec, folder: Path) -> Verification:
    """Every check of two arms that `folder` holds."""
    return verify(
        candidate.job,
        result(candidate, folder),
        reference.job,
        result(reference, folder),
        parity=parity(candidate, reference, folder),
    )


def result(arm: ArmSpec, folder: Path) -> TrialResult:
    """The arm's run, as a trial leaves it."""
    text = (folder / f"{arm.name}.steps").read_text(encoding="utf-8")
    steps = tuple(map(Step.model_validate_json, text.splitlines()))
    workload = arm.job.workload
    return TrialResult(
        outcome="completed",
        steps=steps,
        steps_asked=workload.steps,
        tokens_per_step=workload.tokens_per_step,
        gpus=arm.processes,
        wall_s=sum(step.seconds for step in steps),
        provenance="measured",
        hardware="cpu",
        launcher="local",
    )


def parity(candidate: ArmSpec, reference: ArmSpec, folder: Path) -> Check:
    """What the parity probe says of the two arms."""
    ours, theirs = (read_parity(folder / f"{a.name}.parity") for a in (candidate, reference))
    return check_parity(ours, theirs, candidate.precision)


def _is_whole(arm: ArmSpec, folder: Path) -> bool:
    file = folder / f"{arm.name}.steps"
    return file.exists() and len(file.read_text().splitlines()) == arm.job.workload.steps


def _arms_text(arms: list[ArmSpec], folder: Path) -> str:
    for arm in arms:
        for kind in ("steps", "parity"):
            (folder / f"{arm.name}.{kind}").unlink(missing_ok=True)
    parts = (f'{{"name": "{arm.name}", "config": {_config(arm, folder).text()}}}' for arm in arms)
    return f'{{"arms": [{", ".join(parts)}]}}'


def _config(arm: ArmSpec, folder: Path) -> WorkerConfig:
    return WorkerConfig(
        model=arm.job.model,
        workload=arm.job.workload,
        layout=arm.job.layout,
        device="cpu",
        steps_file=str(folder / f"{arm.name}.steps"),
        parity_file=str(folder / f"{arm.name}.parity"),
        options=Options(fault=arm.fault),
    )


def _launch(file: Path, processes: int) -> None:
    words = ["-m", "attune.trial.worker.arms", "--arms", str(file)]
    code, text = run_under_torchrun(
        words, processes, environment=environment("cpu"), limit_s=LIMIT_S
    )
    if code:
        raise RuntimeError(f"a launch of the worker failed:\n{text[-4000:]}")
