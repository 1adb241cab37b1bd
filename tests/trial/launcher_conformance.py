"""What every launcher must do; a test class for each inherits this one."""

from __future__ import annotations

import time
from pathlib import Path

from trial_jobs import AWKWARD, FakeFramework, fake_job

from attune.trial import Job
from attune.trial.launchers import Handle, Launcher, State


def wait(handle: Handle, limit_s: float = 300.0) -> State:
    """The state at the end."""
    end = time.monotonic() + limit_s
    while (state := handle.poll()).running:
        assert time.monotonic() < end, "the job did not end"
        time.sleep(handle.interval_s)
    return state


def wait_for_text(handle: Handle, text: str, limit_s: float = 300.0) -> None:
    """Return once a log holds `text`."""
    end = time.monotonic() + limit_s
    while not any(text in path.read_text() for path in handle.log_files()):
        assert time.monotonic() < end, f"no log says {text}"
        time.sleep(0.05)


class LauncherConformance:
    """Contract of `attune.trial.launchers.Launcher`."""

    def launcher(self) -> Launcher:
        raise NotImplementedError

    def start(self, job: Job, directory: Path) -> Handle:
        command = FakeFramework().prepare(job)
        return self.launcher().start(job, command, directory)

    def test_finishes_with_logs_environment_and_awkward_characters(self, tmp_path: Path) -> None:
        directory = tmp_path / "a b'c$d"
        directory.mkdir()
        handle = self.start(fake_job(say='it\'s; $(rm) "x"'), directory)
        assert handle.job_id
        assert wait(handle) == State(running=False, exit_code=0)
        ranks = [p for p in handle.log_files() if p.name.startswith("rank-")]
        assert [path.name for path in ranks] == ["rank-0.log", "rank-1.log"]
        text = ranks[1].read_text(encoding="utf-8")
        assert 'says it\'s; $(rm) "x"\n' in text
        assert f"variable {AWKWARD}\n" in text
        assert "attune step | step 3 of 4" in text
        assert handle.elapsed_s() > 0
        elapsed = handle.elapsed_s()
        handle.cancel()
        assert handle.elapsed_s() == elapsed
        assert handle.poll().exit_code == 0

    def test_failure_has_a_code(self, tmp_path: Path) -> None:
        state = wait(self.start(fake_job(fault="code"), tmp_path))
        assert not state.running
        assert state.exit_code not in (0, None)

    def test_cancel_ends_at_once_and_twice(self, tmp_path: Path) -> None:
        handle = self.start(fake_job(fault="hang"), tmp_path)
        wait_for_text(handle, "hanging")
        assert handle.poll().running
        handle.cancel()
        state = handle.poll()
        assert not state.running
        assert state.exit_code != 0
        handle.cancel()
        assert handle.poll() == state
