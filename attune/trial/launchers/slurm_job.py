"""One job of a Slurm queue: where it stands, and its end."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from attune.errors import AttuneError
from attune.trial.launchers import slurm_commands as slurm
from attune.trial.launchers.launcher import EndedBy, State
from attune.trial.launchers.slurm_script import EXIT_CODE

_CANCEL_LIMIT_S = 120.0
"""Slurm sends SIGKILL after KillWait (30 s by default), and then tidies up."""
_HOPELESS = (
    *("PartitionNodeLimit", "PartitionTimeLimit", "PartitionConfig", "BadConstraints"),
    *("InvalidAccount", "InvalidQOS", "AccountNotAllowed", "QOSNotAllowed"),
    "DependencyNeverSatisfied",
)
"""Reasons for which a job would wait for ever (man squeue, JOB REASON CODES)."""
_HOPELESS_AFTER_S = 10.0
"""A partition that is being changed may give such a reason for a moment."""
_BY_LIMIT = ("TIMEOUT", "DEADLINE")
_BY_SCHEDULER = ("NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "REVOKED", "CANCELLED")
_FAULTS = ("JobLaunchFailure", "SystemFailure", "PartitionDown", "FrontEndDown")


class SlurmHandle:
    """A job of the queue, by its number alone: any attune may hold it."""

    def __init__(self, job_id: str, directory: Path, interval_s: float) -> None:
        self.job_id = job_id
        self.interval_s = interval_s
        self._directory = directory
        self._state = State(running=True, queued=True)
        self._job: slurm.SlurmJob | None = None
        self._names: dict[str, tuple[str, ...]] = {}
        self._hopeless_since: float | None = None
        self._cancelled = False

    def poll(self) -> State:
        if self._state.running:
            with suppress(slurm.SlurmSilentError):
                job = slurm.ask(self.job_id)
                self._job = job or self._job
                self._state = self._forgotten() if job is None else self._told(job)
        return self._state

    def cancel(self) -> None:
        end = time.monotonic() + _CANCEL_LIMIT_S
        while self.poll().running and time.monotonic() < end:
            self._cancelled = True
            with suppress(slurm.SlurmSilentError):
                slurm.cancel(self.job_id)
            time.sleep(min(self.interval_s, 1.0))

    def log_files(self) -> list[Path]:
        return sorted((self._directory / "logs").glob("*.log"))

    def elapsed_s(self) -> float:
        job = self._job
        if job is None or job.started is None or not job.has_nodes:
            return 0.0
        end = job.ended if job.over and job.ended else time.time()
        # Slurm counts whole seconds.
        return max(1.0, end - job.started)

    def _told(self, job: slurm.SlurmJob) -> State:
        if job.state in slurm.QUEUED:
            return self._waiting(job)
        nodes = self._nodes(job.node_list)
        if not job.over:
            return State(running=True, nodes=nodes)
        by = self._ended_by(job)
        code = job.exit_code
        if job.state == "OUT_OF_MEMORY":
            code = -9  # the kernel's doing, told as 0:125
        elif job.state != "COMPLETED" and code == 0:
            code = -15
        words = f"Slurm ended job {self.job_id}: {job.state} {job.reason}".strip()
        return State(
            running=False,
            exit_code=code,
            ended_by=by,
            reason="" if by == "program" else words,
            nodes=nodes,
        )

    def _ended_by(self, job: slurm.SlurmJob) -> EndedBy:
        if self._cancelled:
            return "program"
        if job.state in _BY_LIMIT:
            return "limit"
        fault = job.state in _BY_SCHEDULER or job.reason in _FAULTS
        return "scheduler" if fault else "program"

    def _waiting(self, job: slurm.SlurmJob) -> State:
        if job.reason not in _HOPELESS:
            self._hopeless_since = None
        elif self._hopeless_since is None:
            self._hopeless_since = time.monotonic()
        elif time.monotonic() - self._hopeless_since > _HOPELESS_AFTER_S:
            slurm.cancel(self.job_id)
            words = f"job {self.job_id} would wait for ever: {job.reason}"
            return State(running=False, exit_code=-15, ended_by="scheduler", reason=words)
        return State(running=True, queued=True, reason=job.reason)

    def _forgotten(self) -> State:
        """The end as the job's own script left it, where Slurm remembers the job no more."""
        nodes = self._state.nodes
        try:
            code = int((self._directory / EXIT_CODE).read_text())
        except (OSError, ValueError):
            words = f"Slurm has forgotten job {self.job_id}, and it left no exit code"
            return State(
                running=False, exit_code=-9, ended_by="scheduler", reason=words, nodes=nodes
            )
        return State(running=False, exit_code=code, nodes=nodes)

    def _nodes(self, node_list: str) -> tuple[str, ...]:
        if node_list not in self._names:
            with suppress(AttuneError, slurm.SlurmSilentError):
                self._names[node_list] = slurm.node_names(node_list)
        return self._names.get(node_list, ())
