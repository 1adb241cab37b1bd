"""The worker's configuration file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from attune.catalog import load_model
from attune.errors import AttuneError
from attune.layout import Layout
from attune.trial.worker.config import Options, WorkerConfig, environment
from attune.workload import Workload


def _config() -> WorkerConfig:
    return WorkerConfig(
        model=load_model("tiny-moe"),
        workload=Workload(precision="fp32"),
        layout=Layout(tp=2, recompute="selective", recompute_modules=("core_attn",)),
        device="cpu",
        options=Options.model_validate({"learning_rate_scale": "1.02"}),
    )


def test_file_is_read_back_as_written(tmp_path: Path) -> None:
    (tmp_path / "worker.json").write_text(_config().text())
    assert WorkerConfig.read(tmp_path / "worker.json") == _config()


def test_unknown_field_is_named(tmp_path: Path) -> None:
    (tmp_path / "worker.json").write_text(_config().text())
    text = (tmp_path / "worker.json").read_text().replace('"device"', '"devise"')
    (tmp_path / "worker.json").write_text(text)
    with pytest.raises(AttuneError, match="devise"):
        WorkerConfig.read(tmp_path / "worker.json")


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(AttuneError, match=r"nowhere\.json"):
        WorkerConfig.read(tmp_path / "nowhere.json")


def test_environment_on_cpu_is_one_thread_and_one_arena() -> None:
    assert environment("cpu")["OMP_NUM_THREADS"] == environment("cpu")["MALLOC_ARENA_MAX"] == "1"
    assert "CUDA_VISIBLE_DEVICES" not in environment("cuda")


def test_configuration_and_log_import_no_torch() -> None:
    code = (
        "import sys, attune.trial.worker.config, attune.trial.worker.log; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
