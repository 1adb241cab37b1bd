"""Runs one job: any framework on any launcher."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from attune.trial.directory import (
    begin_directory,
    read_result,
    write_command,
    write_job,
    write_result,
)
from attune.trial.frameworks import Framework, load_framework
from attune.trial.job import Job
from attune.trial.launchers.launcher import Handle, Launcher
from attune.trial.logs import RunLog
from attune.trial.outcome import Stopped, decide
from attune.trial.result import Step, TrialResult

__all__ = ["read_result", "run"]

Watch = Callable[[Step], bool]


def run(
    job: Job, launcher: Launcher, directory: Path, *, watch: Watch | None = None
) -> TrialResult:
    """The result of one run, which is also written to `directory`.

    The directory receives trial.yaml and command.sh before the launch, logs/ and steps.jsonl
    while it runs, result.json at its end. The wait ends at `job.limit_s`.

    Args:
        job: what to train, and where.
        launcher: what starts it.
        directory: the trial directory; what a killed run left in it is replaced.
        watch: sees each step as it is logged; False ends the run as `pruned`.

    Raises:
        AttuneError: the job cannot start here; nothing was written or started.
        LayoutError: the framework cannot express the layout.
        KeyboardInterrupt: the run was cancelled; its result was written first.
    """
    framework = load_framework(job.framework)
    launcher.check(job, framework.modules)
    begin_directory(directory)
    command = framework.prepare(job, directory)
    write_job(job, launcher.name, directory)
    write_command(command, directory)
    handle = launcher.start(job, command, directory)
    return _Run(job, launcher, framework, handle, directory).follow(watch)


class _Run:
    """One started job, until its result is written."""

    def __init__(
        self, job: Job, launcher: Launcher, framework: Framework, handle: Handle, directory: Path
    ) -> None:
        self._job = job
        self._launcher = launcher
        self._handle = handle
        self._directory = directory
        self._log = RunLog(framework.reader())

    def follow(self, watch: Watch | None) -> TrialResult:
        """Wait for the end, whatever it is; no process is left when this returns or raises."""
        stopped: Stopped | None = None
        try:
            stopped = self._wait(watch)
        except KeyboardInterrupt:
            self._finish("cancelled")
            raise
        finally:
            self._handle.cancel()
        return self._finish(stopped)

    def _wait(self, watch: Watch | None) -> Stopped | None:
        while True:
            # The state comes first, so that what an ended job wrote last is still read.
            running = self._handle.poll().running
            if not self._read(watch):
                return "pruned"
            if not running:
                return None
            if self._handle.elapsed_s() >= self._job.limit_s:
                return "timed_out"
            if self._handle.interval_s:
                time.sleep(self._handle.interval_s)

    def _read(self, watch: Watch | None) -> bool:
        """Take the new lines; False where `watch` has seen enough."""
        for step in self._log.look(self._handle.log_files()):
            with (self._directory / "steps.jsonl").open("a", encoding="utf-8") as file:
                file.write(step.model_dump_json() + "\n")
            if watch is not None and not watch(step):
                return False
        return True

    def _finish(self, stopped: Stopped | None) -> TrialResult:
        self._handle.cancel()
        if stopped != "pruned":
            self._read(None)
        self._log.close()
        result = self._result(stopped)
        write_result(result, self._directory)
        return result

    def _result(self, stopped: Stopped | None) -> TrialResult:
        job, gpu = self._job, self._job.cluster.gpu
        verdict = decide(
            self._log,
            steps_asked=job.workload.steps,
            exit_code=self._handle.poll().exit_code,
            stopped=stopped,
            on_cpu=gpu.architecture == "cpu",
        )
        predicted = self._launcher.provenance == "predicted"
        return TrialResult(
            outcome=verdict.outcome,
            log_class=verdict.log_class,
            evidence=verdict.evidence,
            advice=verdict.advice,
            rank=verdict.rank,
            phase=verdict.phase,
            requested_gib=verdict.requested_gib,
            steps=tuple(self._log.steps),
            ranks=tuple(self._log.ranks[rank] for rank in sorted(self._log.ranks)),
            steps_asked=job.workload.steps,
            tokens_per_step=job.workload.tokens_per_step,
            gpus=job.cluster.count,
            wall_s=self._handle.elapsed_s(),
            provenance=self._launcher.provenance,
            hardware=f"virtual {gpu.id}" if predicted else gpu.id,
            launcher=self._launcher.name,
        )
