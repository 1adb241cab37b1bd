"""Where a Ray job stands, from what its client and its driver say."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from trial_jobs import fake_job

from attune.errors import AttuneError
from attune.trial.launchers import load_launcher
from attune.trial.launchers.launcher import State
from attune.trial.launchers.ray_job import RayHandle


@dataclass
class Info:
    status: str
    message: str = ""
    driver_exit_code: int | None = None
    start_time: int | None = 1_000_000
    end_time: int | None = None


@dataclass
class Client:
    """Answers as JobSubmissionClient does."""

    info: Info
    stopped: list[str] = field(default_factory=list)

    def get_job_info(self, name: str) -> Info:
        if self.info.status == "silent":
            raise RuntimeError("Request failed with status code 503")
        return self.info

    def stop_job(self, name: str) -> bool:
        self.stopped.append(name)
        self.info = Info("STOPPED", end_time=1_010_000)
        return True

    def get_job_logs(self, name: str) -> str:
        return "sh: cd: no such directory\n"


def handle(folder: Path, info: Info, **told: Any) -> tuple[RayHandle, Client]:
    (folder / "logs").mkdir(exist_ok=True)
    (folder / "ray_job.json").write_text("{}")
    if told:
        (folder / "logs" / "ray-state.json").write_text(json.dumps(told))
    client = Client(info)
    return RayHandle(client, "attune-1", folder, 0.01), client


def test_waits_for_a_placement_group(tmp_path: Path) -> None:
    told = {"phase": "queued", "reason": "placement group of 2 nodes is pending"}
    waiting, _ = handle(tmp_path, Info("RUNNING"), **told)
    assert waiting.poll() == State(running=True, queued=True, reason=told["reason"])
    assert waiting.elapsed_s() == 0.0


@pytest.mark.parametrize(
    ("info", "told", "expected"),
    [
        (Info("SUCCEEDED", driver_exit_code=0), {}, (0, "program")),
        (Info("FAILED", driver_exit_code=23), {}, (23, "program")),
        (Info("FAILED", driver_exit_code=70), {"fault": "node died"}, (70, "scheduler")),
        (Info("FAILED", "supervisor died"), {}, (1, "scheduler")),
        (Info("FAILED", driver_exit_code=124), {"limit": True}, (124, "limit")),
        (Info("STOPPED"), {}, (-15, "scheduler")),
    ],
)
def test_ends(tmp_path: Path, info: Info, told: dict[str, Any], expected: tuple[int, str]) -> None:
    info.end_time = 1_100_000
    over, _ = handle(tmp_path, info, nodes=["a", "b"], started=1040.0, **told)
    state = over.poll()
    assert (state.exit_code, state.ended_by) == expected
    assert state.nodes == ("a", "b")
    assert over.elapsed_s() == 60.0


def test_silence_changes_nothing_and_cancel_is_the_programs_own(tmp_path: Path) -> None:
    running, client = handle(tmp_path, Info("RUNNING"), phase="running", started=1.0, nodes=["a"])
    before = running.poll()
    assert before == State(running=True, nodes=("a",))
    client.info = Info("silent")
    assert running.poll() == before
    client.info = Info("RUNNING")
    running.cancel()
    assert running.poll() == State(running=False, exit_code=-15, nodes=("a",))
    running.cancel()
    assert client.stopped == ["attune-1"]


def test_what_a_driver_said_before_it_had_a_log_is_kept(tmp_path: Path) -> None:
    over, _ = handle(tmp_path, Info("FAILED", driver_exit_code=2, end_time=1))
    over.poll()
    assert "no such directory" in (tmp_path / "logs" / "launcher.log").read_text()


def test_the_client_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "ray.job_submission", None)
    with pytest.raises(AttuneError, match=r"pip install attune\[ray\]"):
        load_launcher("ray").check(fake_job(), ())
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(AttuneError, match=r"pip install attune\[kubernetes\]"):
        load_launcher("kubernetes", {"image": "x"}).check(fake_job(), ())
