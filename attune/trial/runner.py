"""Runs one job: any framework on any launcher."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

from attune.errors import LayoutError
from attune.trial.directory import (
    begin_directory,
    read_result,
    spent_s,
    write_command,
    write_job,
    write_result,
)
from attune.trial.frameworks import load_framework
from attune.trial.job import Job
from attune.trial.launchers.launcher import Handle, Launcher
from attune.trial.logs import RunLog
from attune.trial.outcome import Stopped, decide
from attune.trial.probe import MemoryProbe
from attune.trial.result import Provenance, Step, TrialResult

__all__ = ["follow", "read_result", "run", "spent_s"]

Watch = Callable[[Step], bool]
Steps = Generator[Step, bool | None, TrialResult]


def run(
    job: Job, launcher: Launcher, directory: Path, *, watch: Watch | None = None
) -> TrialResult:
    """The result of one run; `watch` sees each step as it is logged, and ends the run by False.

    All else is as in `follow`.
    """
    steps = follow(job, launcher, directory)
    keep: bool | None = None
    while True:
        try:
            step = steps.send(keep)
        except StopIteration as end:
            result: TrialResult = end.value
            return result
        keep = watch is None or watch(step)


def follow(job: Job, launcher: Launcher, directory: Path) -> Steps:
    """Runs a job and yields each step as it is logged; returns the result.

    The directory receives trial.yaml and command.sh before the launch, logs/ and steps.jsonl
    while it runs, result.json at its end. The wait ends at `job.limit_s`. Sending False after a
    step ends the run as `pruned`.

    Args:
        job: what to train, and where.
        launcher: what starts it.
        directory: the trial directory; what a killed run left in it is replaced.

    Raises:
        AttuneError: the job cannot start here; nothing was written or started.
        LayoutError: the framework cannot express the layout.
        KeyboardInterrupt: the run was cancelled; its result was written first.
    """
    framework = load_framework(job.framework)
    launcher.check(job, framework.modules)
    if launcher.provenance == "measured" and (reason := framework.refuses(job)):
        raise LayoutError(reason)
    begin_directory(directory)
    command = framework.prepare(job)
    write_job(job, launcher.name, directory)
    write_command(command, directory)
    handle = launcher.start(job, command, directory)
    provenance = "predicted" if command.simulated else launcher.provenance
    log = RunLog(framework.reader(job))
    return (yield from _Run(job, launcher.name, provenance, log, handle, directory).follow())


class _Run:
    """One started job, until its result is written."""

    def __init__(
        self,
        job: Job,
        launcher: str,
        provenance: Provenance,
        log: RunLog,
        handle: Handle,
        directory: Path,
    ) -> None:
        self._job = job
        self._launcher = launcher
        self._provenance = provenance
        self._handle = handle
        self._directory = directory
        self._log = log

    def follow(self) -> Steps:
        """Wait for the end, whatever it is; no process is left when this returns or raises."""
        try:
            stopped = yield from self._wait()
        except (KeyboardInterrupt, GeneratorExit):
            self._finish("cancelled")
            raise
        finally:
            self._handle.cancel()
        return self._finish(stopped)

    def _wait(self) -> Generator[Step, bool | None, Stopped | None]:
        while True:
            # The state comes first, so that what an ended job wrote last is still read.
            running = self._handle.poll().running
            for step in self._read():
                if (yield step) is False:
                    return "pruned"
            if not running:
                return None
            if self._handle.elapsed_s() >= self._job.limit_s:
                return "timed_out"
            if self._handle.interval_s:
                time.sleep(self._handle.interval_s)

    def _read(self) -> Iterator[Step]:
        """The new steps of the logs, each written to steps.jsonl first."""
        for step in self._log.look(self._handle.log_files()):
            with (self._directory / "steps.jsonl").open("a", encoding="utf-8") as file:
                file.write(step.model_dump_json() + "\n")
            yield step

    def _finish(self, stopped: Stopped | None) -> TrialResult:
        self._handle.cancel()
        if stopped != "pruned":
            deque(self._read(), maxlen=0)
        self._log.close()
        result = self._result(stopped)
        write_result(result, self._directory)
        return result

    def _result(self, stopped: Stopped | None) -> TrialResult:
        job, gpu = self._job, self._job.cluster.gpu
        verdict = decide(
            self._log,
            steps_asked=job.steps,
            exit_code=self._handle.poll().exit_code,
            stopped=stopped,
            on_cpu=gpu.architecture == "cpu",
            trains=job.probe is None,
        )
        predicted = self._provenance == "predicted"
        played = job.probe.rank if isinstance(job.probe, MemoryProbe) else None
        return TrialResult(
            outcome=verdict.outcome,
            log_class=verdict.log_class,
            evidence=verdict.evidence,
            advice=verdict.advice,
            # The one process of a memory probe plays another rank than its own.
            rank=verdict.rank if played is None or verdict.rank is None else played,
            phase=verdict.phase,
            requested_gib=verdict.requested_gib,
            steps=tuple(self._log.steps),
            ranks=tuple(self._log.ranks[rank] for rank in sorted(self._log.ranks)),
            held=tuple(self._log.held),
            layers=tuple(self._log.layers),
            probe=job.probe.kind if job.probe else None,
            steps_asked=job.steps,
            tokens_per_step=job.workload.tokens_per_step,
            gpus=job.cluster.count,
            wall_s=self._handle.elapsed_s(),
            provenance=self._provenance,
            hardware=f"virtual {gpu.id}" if predicted else gpu.id,
            launcher=self._launcher,
        )
