"""attune's own trainer on megatron-core."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from attune.errors import AttuneError
from attune.trial.failures import CLASSES
from attune.trial.findings import Finding, classify
from attune.trial.frameworks.framework import Command
from attune.trial.job import Job
from attune.trial.logs import Phase, Reading
from attune.trial.script import shell_script
from attune.trial.worker.config import Device, Options, WorkerConfig, environment
from attune.trial.worker.log import (
    ECHO,
    PHASE,
    WorkerError,
    read_error,
    read_held,
    read_layer,
    read_memory,
    read_step,
)
from attune.trial.worker.refusal import HELD, find_model_reason, find_reason

CONFIG = "worker.json"
PARITY = "parity.jsonl"
"""The parity probe's file in the trial directory."""
_CLASSES = {
    "out_of_memory": "GPU_OOM",
    "diverged": "NAN",
    "illegal_layout": "ILLEGAL_LAYOUT",
    "exception": "CRASH",
}
_OUT_OF_MEMORY = ("GPU_OOM", "GPU_OOM_FRAGMENTATION", "HOST_OOM")
_PACKAGES = Path(__file__).resolve().parents[3]
"""Where the package `attune` lies: an installation or a checkout."""


class MegatronCore:
    """`python -m attune.trial.worker --config worker.json` under torchrun."""

    name = "megatron-core"
    modules = ("torch", "megatron.core")

    held = HELD

    def refuses(self, job: Job) -> str | None:
        # What needs Transformer Engine is known only where it runs; the worker says it there.
        config = _config(job)
        return find_reason(config, job.world, transformer_engine=config.device == "cuda")

    def refuses_model(self, job: Job) -> str | None:
        return find_model_reason(_config(job))

    def prepare(self, job: Job) -> Command:
        config = _config(job)
        return Command(
            argv=("-m", "attune.trial.worker", "--config", CONFIG),
            environment={**environment(config.device), "PYTHONPATH": str(_PACKAGES)},
            files={CONFIG: config.text()},
            processes_per_node=job.cluster.per_node,
            nodes=job.cluster.nodes,
        )

    def run_block(self, job: Job) -> str:
        command = self.prepare(job)
        # Where attune lies on this machine is nobody else's matter.
        kept = {k: v for k, v in command.environment.items() if k != "PYTHONPATH"}
        return shell_script(replace(command, environment=kept), "python3", with_files=True)

    def own_weights(self, job: Job) -> str | None:
        return None  # they depend on seed and parameter name alone

    def reader(self, job: Job | None = None) -> WorkerReader:
        return WorkerReader()


class WorkerReader:
    """Reads the lines of `attune.trial.worker.log`."""

    def read(self, line: str) -> Reading | None:
        if "attune " not in line:
            return None
        if phase := PHASE.search(line):
            return Phase(phase["phase"])
        if echo := ECHO.search(line):
            return Finding(log_class="SECONDARY", line=echo["message"])
        if error := read_error(line):
            return _finding(error)
        return read_step(line) or read_memory(line) or read_held(line) or read_layer(line)


def _finding(error: WorkerError) -> Finding:
    known = classify(error.message)
    log_class = _CLASSES.get(error.kind, "CRASH")
    if known and _says_more(log_class, known.log_class):
        log_class = known.log_class
    requested = error.requested_bytes
    return Finding(
        log_class=log_class,
        line=error.message[:400],
        rank=error.rank,
        phase=error.phase if error.step is None else f"{error.phase} of step {error.step}",
        requested_gib=None if requested is None else requested / 2**30,
        on_host=bool(known and known.on_host),
    )


def _says_more(reported: str, known: str) -> bool:
    """Whether the class of the message goes before the kind that the worker reported."""
    if CLASSES[known].outcome is None:
        return False
    # `exception` says little; an out of memory may be one of fragments, or the host's.
    return reported == "CRASH" or (reported == "GPU_OOM" and known in _OUT_OF_MEMORY)


def _config(job: Job) -> WorkerConfig:
    device: Device = "cpu" if job.cluster.gpu.architecture == "cpu" else "cuda"
    rows = job.workload.rows
    # The worker runs in the trial directory, so a path is made to hold there.
    place = rows if rows == "synthetic" else str(Path(rows).resolve())
    return WorkerConfig(
        model=job.model,
        workload=job.workload.model_copy(update={"rows": place}),
        probe=job.probe,
        layout=job.layout,
        device=device,
        memory_gib=job.cluster.gpu.memory_gib if device == "cpu" else None,
        parity_file=PARITY if job.parity else None,
        options=_options(job.worker_options),
    )


def _options(given: dict[str, str]) -> Options:
    try:
        return Options.model_validate(given)
    except ValueError as error:
        names = ", ".join(Options.model_fields)
        raise AttuneError(f"worker options {given} are wrong; there are {names}") from error
