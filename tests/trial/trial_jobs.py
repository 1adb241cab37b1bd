"""Jobs for the tests of trials, a framework that runs the fake trainer, a performance to obey."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from attune.catalog import Cluster, load_cluster, load_gpu, load_model
from attune.layout import Layout
from attune.trial import Job
from attune.trial.frameworks import Command
from attune.trial.frameworks.megatron_core import WorkerReader
from attune.workload import Workload

_HERE = Path(__file__).resolve().parent
_CHECKOUT = _HERE.parents[1]
AWKWARD = 'it\'s "quoted" $HOME `id` ; ünï\tcode'


class FakeFramework:
    """The fake trainer, told by the job's worker options."""

    name = "fake"
    modules = ()
    held: ClassVar[dict[str, Any]] = {}

    def refuses(self, job: Job) -> str | None:
        return None

    def refuses_model(self, job: Job) -> str | None:
        return None

    def prepare(self, job: Job) -> Command:
        told = dict(job.worker_options)
        mark = {"ATTUNE_TEST_MARK": told.pop("mark")} if "mark" in told else {}
        words = [f"{key}={value}" for key, value in told.items()]
        return Command(
            argv=(str(_HERE / "fake_trainer.py"), f"steps={job.workload.steps}", *words),
            environment={"PYTHONPATH": str(_CHECKOUT), "AWKWARD": AWKWARD, **mark},
            files={},
            processes_per_node=job.cluster.per_node,
            nodes=job.cluster.nodes,
        )

    def run_block(self, job: Job) -> str:
        return ""

    def own_weights(self, job: Job) -> str | None:
        return None

    def reader(self, job: Job | None = None) -> WorkerReader:
        return WorkerReader()


def fake_job(count: int = 2, *, steps: int = 4, limit_s: float = 300.0, **told: str) -> Job:
    """A job of the fake trainer on this machine's CPUs."""
    return Job(
        model=load_model("tiny-dense"),
        cluster=load_cluster("cpu", count),
        workload=Workload(row_tokens=128, global_batch=16, precision="fp32", steps=steps),
        layout=Layout(),
        framework="fake",
        limit_s=limit_s,
        worker_options=told,
    )


def worker_job(limit_s: float) -> Job:
    """A short real training of attune's worker: two processes, on a node each."""
    gpu = load_gpu("cpu").model_copy(update={"per_node": 1})
    return Job(
        model=load_model("tiny-dense"),
        cluster=Cluster(gpu=gpu, count=2),
        workload=Workload(row_tokens=128, global_batch=4, precision="fp32", steps=4),
        layout=Layout(),
        limit_s=limit_s,
    )


@dataclass(frozen=True, kw_only=True)
class FakeOutOfMemory:
    rank: int = 9
    stage: int = 1
    phase: str = "forward"
    requested_gib: float = 3.5
    free_gib: float = 1.5


@dataclass(frozen=True, kw_only=True)
class FakePerformance:
    """A virtual cluster's answer."""

    step_times_s: tuple[float, ...] = (30.0, *(14.0 + 0.1 * i for i in range(19)))
    losses: tuple[float, ...] = tuple(11.0 - 0.2 * i for i in range(20))
    grad_norms: tuple[float, ...] = (1.0,) * 20
    allocated_gib: tuple[float, ...] = (100.0, 90.0)
    reserved_gib: tuple[float, ...] = (110.0, 95.0)
    out_of_memory: FakeOutOfMemory | None = None


def h200_job(count: int = 16, *, pp: int = 2, limit_s: float = 1800.0) -> Job:
    """A job on virtual H200."""
    return Job(
        model=load_model("qwen3-8b"),
        cluster=load_cluster("h200", count),
        workload=Workload(),
        layout=Layout(tp=4, pp=pp, sequence_parallel=True),
        limit_s=limit_s,
    )
