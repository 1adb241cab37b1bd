"""Runs one job: any framework on any launcher."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

from attune.errors import AttuneError, LayoutError
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
from attune.trial.launchers.launcher import Handle, Launcher, State
from attune.trial.logs import RunLog
from attune.trial.outcome import Stopped, Verdict, decide
from attune.trial.probe import PROBING, MemoryProbe
from attune.trial.result import Provenance, Step, TrialResult

__all__ = ["follow", "read_result", "resume", "run", "spent_s"]

Watch = Callable[[Step], bool]
Steps = Generator[Step, bool | None, TrialResult]
AskedToStop = Callable[[], bool]

_INNOCENT = ("infrastructure", "incomplete", "host_out_of_memory", "timed_out")
"""Outcomes that a lost node or a preemption explains better than the logs do."""


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


def follow(
    job: Job,
    launcher: Launcher,
    directory: Path,
    *,
    asked_to_stop: AskedToStop | None = None,
) -> Steps:
    """Runs a job and yields each step as it is logged; returns the result.

    The directory receives trial.yaml, command.sh and launch.json before the wait, logs/ and
    steps.jsonl while it runs, result.json at its end. The wait ends at `job.limit_s`, counted from
    when the nodes are there, or at the launcher's queue limit. Sending False after a step ends the
    run as `pruned`.

    Args:
        job: what to train, and where.
        launcher: what starts it.
        directory: the trial directory; what a killed run left in it is replaced.
        asked_to_stop: asked now and then; True ends the run as Ctrl-C does.

    Raises:
        AttuneError: the job cannot start here; nothing was written or started.
        LayoutError: the framework cannot express the layout.
        KeyboardInterrupt: the run was cancelled; its result was written first.
    """
    framework = load_framework(job.framework)
    if job.probe is not None and job.framework != PROBING:
        raise AttuneError(f"{job.framework} runs no probes; use framework {PROBING}")
    launcher.check(job, framework.modules)
    if launcher.provenance == "measured" and (reason := framework.refuses(job)):
        raise LayoutError(reason)
    begin_directory(directory)
    command = framework.prepare(job)
    write_job(job, launcher.name, directory)
    write_command(command, directory)
    try:
        handle = launcher.start(job, command, directory)
        log = RunLog(framework.reader(job))
        started = _Run(job, launcher, command.simulated, log, handle, directory, asked_to_stop)
        return (yield from started.follow())
    except (KeyboardInterrupt, GeneratorExit):
        _end_unfollowed(job, launcher, directory)
        raise


def _end_unfollowed(job: Job, launcher: Launcher, directory: Path) -> None:
    """Ends a job whose start was interrupted before anybody could follow it."""
    if read_result(directory) is None and (left := launcher.attach(job, directory)) is not None:
        left.cancel()


def resume(
    job: Job,
    launcher: Launcher,
    directory: Path,
    *,
    asked_to_stop: AskedToStop | None = None,
) -> Steps | None:
    """Goes on with the run that a killed attune left in `directory`; as `follow` from its start on.

    None where no job is left, running or ended: nothing runs then, and the run may be repeated.

    Raises:
        AttuneError: the scheduler cannot be asked.
    """
    handle = launcher.attach(job, directory)
    if handle is None:
        return None
    (directory / "steps.jsonl").unlink(missing_ok=True)
    framework = load_framework(job.framework)
    simulated = framework.prepare(job).simulated
    log = RunLog(framework.reader(job))
    return _Run(job, launcher, simulated, log, handle, directory, asked_to_stop).follow()


class _Run:
    """One started job, until its result is written."""

    def __init__(
        self,
        job: Job,
        launcher: Launcher,
        simulated: bool,
        log: RunLog,
        handle: Handle,
        directory: Path,
        asked_to_stop: AskedToStop | None,
    ) -> None:
        self._job = job
        self._launcher = launcher
        self._provenance: Provenance = "predicted" if simulated else launcher.provenance
        self._handle = handle
        self._directory = directory
        self._log = log
        self._asked_to_stop = asked_to_stop or (lambda: False)
        self._submitted = time.monotonic()
        self._queued_s = 0.0
        self._reason = ""

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
            if self._asked_to_stop():
                raise KeyboardInterrupt
            # The state comes first, so that what an ended job wrote last is still read.
            state = self._handle.poll()
            for step in self._read():
                if (yield step) is False:
                    return "pruned"
            if not state.running:
                return "timed_out" if state.ended_by == "limit" else None
            if self._has_waited_enough(state):
                return None
            if self._handle.elapsed_s() >= self._job.limit_s:
                return "timed_out"
            if self._handle.interval_s:
                time.sleep(self._handle.interval_s)

    def _has_waited_enough(self, state: State) -> bool:
        if not state.queued:
            return False
        self._queued_s = time.monotonic() - self._submitted
        if self._queued_s < self._launcher.queue_limit_s:
            return False
        self._reason = f"waited {self._queued_s:.0f} s for its nodes: {state.reason or 'no reason'}"
        return True

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
        state = self._handle.poll()
        verdict = self._decide(state, stopped)
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
            launcher=self._launcher.name,
            nodes=state.nodes,
            queued_s=self._queued_s,
        )

    def _decide(self, state: State, stopped: Stopped | None) -> Verdict:
        """The logs' verdict, unless the scheduler ended the job for a reason of its own."""
        verdict = decide(
            self._log,
            steps_asked=self._job.steps,
            exit_code=state.exit_code,
            stopped=stopped,
            on_cpu=self._job.cluster.gpu.architecture == "cpu",
            trains=self._job.probe is None,
        )
        reason = self._reason or (state.reason if state.ended_by == "scheduler" else "")
        if stopped is not None or not reason or verdict.outcome not in _INNOCENT:
            return verdict
        return Verdict(
            outcome="infrastructure",
            log_class="SCHEDULER",
            evidence=reason,
            advice="not the layout's doing: repeat it when the scheduler has nodes for it",
        )
