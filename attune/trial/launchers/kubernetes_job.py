"""One TrainJob: where it stands, its logs, and its end."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from attune.errors import AttuneError
from attune.trial.launchers.kubernetes_api import KubernetesSilentError, TrainJobs
from attune.trial.launchers.kubernetes_logs import PodLogs
from attune.trial.launchers.launcher import State

_CANCEL_LIMIT_S = 120.0
"""Pods get 30 s to end (terminationGracePeriodSeconds), and then the controllers tidy up."""
_BY_CLUSTER = ("Evicted", "Preempted", "NodeLost", "Shutdown", "Terminated", "NodeShutdown")
"""Reasons of a failed pod that are none of its program (PodStatus.reason)."""


class KubernetesHandle:
    """A TrainJob, by its name alone: any attune may hold it."""

    def __init__(self, jobs: TrainJobs, name: str, directory: Path, interval_s: float) -> None:
        self.job_id = name
        self.interval_s = interval_s
        self._jobs = jobs
        self._logs = PodLogs(jobs, directory / "logs")
        self._state = State(running=True, queued=True)
        self._started: float | None = None
        self._ended: float | None = None
        self._deleted = False

    def poll(self) -> State:
        if self._state.running:
            # Whatever the cluster refuses to tell says nothing about the job.
            with suppress(KubernetesSilentError, AttuneError):
                job = self._jobs.read(self.job_id)
                self._state = self._gone() if job is None else self._told(job)
        return self._state

    def cancel(self) -> None:
        """Ends the job; its object goes too, once its logs are here."""
        if self._deleted:
            return
        ended = not self.poll().running
        with suppress(KubernetesSilentError):
            self._logs.fetch(self._jobs.pods(self.job_id))
        end = time.monotonic() + _CANCEL_LIMIT_S
        while not self._deleted and time.monotonic() < end:
            with suppress(KubernetesSilentError):
                self._jobs.delete(self.job_id)
                left = self._jobs.read(self.job_id) is not None or self._jobs.pods(self.job_id)
                self._deleted = not left
            if not self._deleted:
                time.sleep(min(self.interval_s, 1.0))
        if not ended:
            self._ended = time.time()
            self._state = State(running=False, exit_code=-15, nodes=self._state.nodes)

    def log_files(self) -> list[Path]:
        if not self._deleted:
            with suppress(KubernetesSilentError):
                self._logs.fetch(self._jobs.pods(self.job_id))
        return self._logs.files()

    def elapsed_s(self) -> float:
        if self._started is None:
            return 0.0
        # Kubernetes counts whole seconds.
        return max(1.0, (self._ended or time.time()) - self._started)

    def _told(self, job: dict[str, Any]) -> State:
        pods = self._jobs.pods(self.job_id)
        starts = [pod.status.start_time for pod in pods if pod.status.start_time]
        self._started = min((at.timestamp() for at in starts), default=self._started)
        nodes = tuple(pod.spec.node_name or "" for pod in pods)
        conditions = job.get("status", {}).get("conditions", [])
        for condition in conditions:
            if condition.get("status") == "True" and condition["type"] in ("Complete", "Failed"):
                return self._end(condition, pods, nodes)
        if any(pod.status.phase == "Failed" for pod in pods):
            # Its Job may start the pod again; the ranks of the others wait for one that is gone.
            return self._end({"type": "Failed"}, pods, nodes)
        wanted = job.get("spec", {}).get("trainer", {}).get("numNodes", 1)
        waiting = [pod for pod in pods if pod.status.phase == "Pending"]
        if len(pods) < wanted or waiting:
            return State(running=True, queued=True, reason=_why(waiting, len(pods), wanted))
        return State(running=True, nodes=nodes)

    def _end(self, condition: dict[str, Any], pods: list[Any], nodes: tuple[str, ...]) -> State:
        with suppress(ValueError, KeyError):
            self._ended = datetime.fromisoformat(condition["lastTransitionTime"]).timestamp()
        self._ended = self._ended or time.time()
        self._logs.fetch(pods)
        if condition["type"] == "Complete":
            return State(running=False, exit_code=0, nodes=nodes)
        reason = condition.get("reason", "")
        if reason == "DeadlineExceeded":
            return State(running=False, exit_code=-15, ended_by="limit", reason=reason, nodes=nodes)
        by_cluster = [pod.status for pod in pods if pod.status.reason in _BY_CLUSTER]
        codes = [code for pod in pods if (code := _exit_code(pod))]
        if by_cluster or not codes:
            told = by_cluster[0] if by_cluster else None
            words = f"{told.reason}: {told.message}" if told else condition.get("message", reason)
            return State(
                running=False,
                exit_code=-15,
                ended_by="scheduler",
                reason=f"Kubernetes ended job {self.job_id}: {words}",
                nodes=nodes,
            )
        return State(running=False, exit_code=codes[0], nodes=nodes)

    def _gone(self) -> State:
        """Somebody deleted it."""
        self._ended = time.time()
        return State(
            running=False,
            exit_code=-15,
            ended_by="scheduler",
            reason=f"TrainJob {self.job_id} is gone: somebody deleted it",
            nodes=self._state.nodes,
        )


def _exit_code(pod: Any) -> int | None:
    for status in pod.status.container_statuses or []:
        if status.state and status.state.terminated:
            return int(status.state.terminated.exit_code)
    return None


def _why(waiting: list[Any], pods: int, wanted: int) -> str:
    """What keeps a pod from running, in the scheduler's or the kubelet's words."""
    for pod in waiting:
        for condition in pod.status.conditions or []:
            if condition.type == "PodScheduled" and condition.status == "False":
                return f"{condition.reason}: {condition.message}"
        for status in pod.status.container_statuses or []:
            if status.state and status.state.waiting and status.state.waiting.reason:
                held = status.state.waiting
                return f"{held.reason}: {held.message or 'container waits'}"
    return f"{pods} of {wanted} pods exist"
