"""One job of a Ray cluster: where it stands, and its end."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from attune.trial.launchers.launcher import State

_CANCEL_LIMIT_S = 60.0
"""Ray kills a driver 3 s after it asked it to stop, and its workers after it."""
_ENDED = ("SUCCEEDED", "FAILED", "STOPPED")


class RayHandle:
    """A submitted job, by its name alone: any attune may hold it."""

    def __init__(self, client: Any, job_id: str, directory: Path, interval_s: float) -> None:
        self.job_id = job_id
        self.interval_s = interval_s
        self._client = client
        self._logs = directory / "logs"
        self._state = State(running=True, queued=True)
        self._started: float | None = None
        self._ended: float | None = None
        self._cancelled = False

    def poll(self) -> State:
        if self._state.running:
            # No answer changes nothing; the client raises RuntimeError for every bad status.
            with suppress(RuntimeError, OSError):
                self._state = self._told(self._client.get_job_info(self.job_id))
        return self._state

    def cancel(self) -> None:
        end = time.monotonic() + _CANCEL_LIMIT_S
        while self.poll().running and time.monotonic() < end:
            self._cancelled = True
            with suppress(RuntimeError, OSError):
                self._client.stop_job(self.job_id)
            time.sleep(min(self.interval_s, 0.5))

    def log_files(self) -> list[Path]:
        return sorted(self._logs.glob("*.log"))

    def elapsed_s(self) -> float:
        if self._started is None:
            return 0.0
        return max(0.001, (self._ended or time.time()) - self._started)

    def _told(self, info: Any) -> State:
        status = str(getattr(info.status, "value", info.status))
        told = self._driver_state()
        nodes = tuple(told.get("nodes", ()))
        is_driver = not (self._logs.parent / "ray_job.json").exists()
        if status not in _ENDED:
            if status == "RUNNING" and (is_driver or told.get("phase") == "running"):
                self._started = told.get("started") or (info.start_time or 0) / 1000 or time.time()
                return State(running=True, nodes=nodes)
            reason = told.get("reason") or info.message or status
            return State(running=True, queued=True, reason=reason)
        self._started = told.get("started") or (
            info.start_time / 1000 if is_driver and info.start_time else None
        )
        self._ended = (info.end_time or time.time() * 1000) / 1000
        self._keep_driver_log()
        return self._end(status, info, told, nodes)

    def _end(self, status: str, info: Any, told: dict[str, Any], nodes: tuple[str, ...]) -> State:
        code = info.driver_exit_code
        if status == "STOPPED":
            code = -15
        lost = status == "FAILED" and code is None
        by_scheduler = not self._cancelled and (lost or "fault" in told or status == "STOPPED")
        words = told.get("fault") or f"Ray ended job {self.job_id}: {status} {info.message or ''}"
        return State(
            running=False,
            exit_code=1 if code is None else code,
            ended_by="limit" if told.get("limit") else "scheduler" if by_scheduler else "program",
            reason=words.strip() if by_scheduler else "",
            nodes=nodes,
        )

    def _driver_state(self) -> dict[str, Any]:
        try:
            told: dict[str, Any] = json.loads((self._logs / "ray-state.json").read_text())
        except (OSError, ValueError):
            return {}
        return told

    def _keep_driver_log(self) -> None:
        """What the driver said where it could not even open its log."""
        path = self._logs / "launcher.log"
        if not path.exists():
            with suppress(RuntimeError, OSError):
                path.write_text(self._client.get_job_logs(self.job_id), encoding="utf-8")
