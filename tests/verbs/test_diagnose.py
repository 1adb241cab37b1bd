"""Verdicts on logs that attune never started, and how the command tells them."""

from __future__ import annotations

from pathlib import Path

import pytest

from attune.errors import AttuneError
from attune.trial.result import Step
from attune.trial.worker.log import write_step
from attune.verbs.diagnose import diagnose

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 1 has a total "
    "capacity of 139.80 GiB of which 1.25 GiB is free.\n"
)
ECHO = "torch.distributed.DistBackendError: NCCL error: remote process exited\n"


def test_the_first_cause_in_a_folder_of_logs(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "stderr").write_text(ECHO)
    (tmp_path / "rank-9.log").write_text(OOM)
    (tmp_path / "notes.md").write_text("CUDA error: an illegal memory access\n")
    found = diagnose([tmp_path])
    assert (found.outcome, found.log_class, found.rank) == ("out_of_memory", "GPU_OOM", 9)
    assert found.requested_gib == 3.5
    assert found.files == 2
    assert found.failed and found.advice


def test_steps_and_exit_code_that_the_caller_knows(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    steps = [Step(step=index, seconds=1.5, loss=5.1, grad_norm=1.0) for index in range(3)]
    log.write_text("".join(write_step(step, 20, 1e-3) + "\n" for step in steps))
    assert (diagnose([log]).outcome, diagnose([log]).step) == ("completed", 2)
    assert diagnose([log], steps=20).outcome == "incomplete"
    with log.open("a") as file:
        file.write(OOM)
    assert (diagnose([log]).outcome, diagnose([log]).step) == ("out_of_memory", 2)
    assert diagnose([log], steps=3).outcome == "completed"
    log.write_text(ECHO)
    assert diagnose([log]).failed
    assert diagnose([log], exit_code=-9).log_class == "HOST_OOM"


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(AttuneError, match=r"no log at .*nowhere"):
        diagnose([tmp_path / "nowhere"])
    with pytest.raises(AttuneError, match=r"no file there ends in \.log"):
        diagnose([tmp_path])
    (tmp_path / "a.log").touch()
    with pytest.raises(AttuneError, match="no framework `megatron-core-2`"):
        diagnose([tmp_path], framework="megatron-core-2")
