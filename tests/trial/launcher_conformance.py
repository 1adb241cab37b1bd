"""What every launcher must do; a test class for each inherits this one."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from processes import gone, living
from trial_jobs import AWKWARD, FakeFramework, fake_job

from attune.catalog import Cluster, load_gpu
from attune.trial import Job, read_result, resume, run
from attune.trial.launchers import Handle, Launcher, State

_HERE = Path(__file__).resolve().parent
LIMIT_S = 300.0
"""How long a test waits for what must come; a busy machine takes its time."""


def wait(handle: Handle, limit_s: float = LIMIT_S) -> State:
    """The state at the end."""
    end = time.monotonic() + limit_s
    while (state := handle.poll()).running:
        assert time.monotonic() < end, f"the job did not end: {state}, {said(handle)}"
        time.sleep(handle.interval_s)
    return state


def said(handle: Handle) -> str:
    """All that the job logged, for a failing test."""
    return "\n".join(f"{p.name}: {p.read_text(errors='replace')}" for p in handle.log_files())


def wait_for_text(handle: Handle, text: str, limit_s: float = LIMIT_S) -> None:
    """Return once a log holds `text`."""
    end = time.monotonic() + limit_s
    while text not in said(handle):
        state = handle.poll()
        assert state.running and time.monotonic() < end, f"{state}: {said(handle)}"
        time.sleep(0.05)


class LauncherConformance:
    """Contract of `attune.trial.launchers.Launcher`."""

    module: ClassVar[str]
    """Where the class is, and its name: a killed attune is started from it in another process."""
    nodes: ClassVar[int] = 1
    survives: ClassVar[bool] = False
    """Whether a job outlives the attune that started it."""
    queues: ClassVar[bool] = False

    def launcher(self) -> Launcher:
        raise NotImplementedError

    def waiting(self) -> Launcher:
        """A launcher whose next job waits for ever, with a queue limit of a second."""
        raise NotImplementedError

    def job(self, **told: str) -> Job:
        """A job of two ranks, over the launcher's nodes."""
        gpu = load_gpu("cpu").model_copy(update={"per_node": 2 // self.nodes})
        return replace(fake_job(**told), cluster=Cluster(gpu=gpu, count=2), limit_s=LIMIT_S)

    def start(self, job: Job, directory: Path) -> Handle:
        (directory / "logs").mkdir(parents=True, exist_ok=True)
        return self.launcher().start(job, FakeFramework().prepare(job), directory)

    def test_finishes_with_logs_environment_and_awkward_characters(self, tmp_path: Path) -> None:
        handle = self.start(self.job(say='it\'s; $(rm) "x"'), tmp_path / "a b'c$d")
        assert handle.job_id
        state = wait(handle)
        assert state.exit_code == 0, said(handle)
        assert len(state.nodes) == self.nodes
        ranks = [p for p in handle.log_files() if p.name.startswith("rank-")]
        assert [path.name for path in ranks] == ["rank-0.log", "rank-1.log"]
        text = ranks[1].read_text(encoding="utf-8")
        assert 'says it\'s; $(rm) "x"\n' in text
        assert f"variable {AWKWARD}\n" in text
        assert "attune step | step 3 of 4" in text
        elapsed = handle.elapsed_s()
        assert elapsed > 0
        handle.cancel()
        assert handle.elapsed_s() == elapsed
        assert handle.poll() == state

    def test_failure_has_a_code_and_its_line(self, tmp_path: Path) -> None:
        result = run(self.job(fault="oom"), self.launcher(), tmp_path)
        assert (result.outcome, result.log_class) == ("out_of_memory", "GPU_OOM"), result
        assert (result.rank, len(result.nodes)) == (0, self.nodes)
        assert result.node == result.nodes[0]
        state = wait(self.start(self.job(fault="code"), tmp_path / "code"))
        assert state.exit_code not in (0, None)
        assert state.ended_by == "program"

    def test_time_limit(self, tmp_path: Path) -> None:
        job = replace(self.job(fault="hang", mark=f"mark-{tmp_path}"), limit_s=8.0)
        result = run(job, self.launcher(), tmp_path)
        assert (result.outcome, result.log_class) == ("timed_out", "HANG"), result
        assert result.wall_s >= 8.0
        assert gone(f"mark-{tmp_path}")

    def test_queue_limit_gives_the_schedulers_reason(self, tmp_path: Path) -> None:
        if not self.queues:
            assert self.launcher().queue_limit_s == math.inf
            return
        result = run(self.job(), self.waiting(), tmp_path)
        assert (result.outcome, result.log_class) == ("infrastructure", "SCHEDULER"), result
        assert result.evidence.startswith("waited ")
        assert "no reason" not in result.evidence
        assert (result.wall_s, result.gpu_hours) == (0.0, 0.0)
        assert result.queued_s >= 1

    def test_cancel_ends_all_and_twice(self, tmp_path: Path) -> None:
        marker = f"mark-{tmp_path}"
        handle = self.start(self.job(fault="stubborn", mark=marker), tmp_path)
        wait_for_text(handle, "hanging")
        assert living(marker)
        assert handle.poll().running
        handle.cancel()
        assert gone(marker)
        state = handle.poll()
        assert not state.running
        assert state.exit_code != 0
        assert state.ended_by == "program"
        handle.cancel()
        assert handle.poll() == state

    @pytest.mark.parametrize("known", [True, False])
    def test_goes_on_after_attune_was_killed(self, tmp_path: Path, known: bool) -> None:
        marker, go = f"mark-{tmp_path}", tmp_path / "go"
        job = self.job(fault="await", go=str(go), mark=marker)
        self._start_and_be_killed(job, tmp_path)
        record = tmp_path / "launch.json"
        if not known:
            # Killed between the submission and the scheduler's answer.
            text = record.read_text().replace('"job_id": "', '"job_id": null, "answer": "')
            record.write_text(text)
        steps = resume(job, self.launcher(), tmp_path)
        if not self.survives:
            assert steps is None
            assert gone(marker)
            return
        assert living(marker)
        assert steps is not None
        go.touch()
        assert [step.step for step in steps] == [0, 1, 2, 3]
        result = read_result(tmp_path)
        assert result is not None
        assert result.outcome == "completed", result
        assert gone(marker)

    def _start_and_be_killed(self, job: Job, directory: Path) -> None:
        """Another process runs the job, and is killed in the middle of it."""
        module, _, kind = self.module.partition(":")
        program = (
            "import sys; sys.path[:0] = sys.argv[2:]\n"
            "from pathlib import Path\n"
            f"from {module} import {kind}\n"
            "from attune.trial.frameworks import FRAMEWORKS\n"
            "from attune.trial import run\n"
            "FRAMEWORKS['fake'] = 'trial_jobs:FakeFramework'\n"
            f"test = {kind}()\n"
            f"job = test.job(**{dict(job.worker_options)!r})\n"
            "run(job, test.launcher(), Path(sys.argv[1]))\n"
        )
        places = (_HERE, _HERE.parent / "clusters", _HERE.parents[1])
        attune = subprocess.Popen(
            [sys.executable, "-c", program, str(directory), *map(str, places)]
        )
        logs, end = directory / "logs", time.monotonic() + LIMIT_S
        try:
            while not any("hanging" in log.read_text() for log in logs.glob("rank-*.log")):
                assert attune.poll() is None, "attune ended"
                assert time.monotonic() < end
                time.sleep(0.05)
        finally:
            os.kill(attune.pid, signal.SIGKILL)
            attune.wait()

    def test_nothing_to_go_on_with(self, tmp_path: Path) -> None:
        assert resume(self.job(), self.launcher(), tmp_path) is None
