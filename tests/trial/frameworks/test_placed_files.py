"""The files that a trial places beside its command, run as a trainer runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from trial_jobs import h200_job

from attune.errors import AttuneError
from attune.trial.frameworks.checkpoint import checkpoint_digest
from attune.trial.frameworks.files import file_text

TELL = "import json, os, sys\nprint(json.dumps([sys.argv[1:], sys.path[:2], __name__]))\n"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing torch on a busy machine takes what it takes."""
    monkeypatch.setattr("attune.trial.frameworks.preflight._LIMIT_S", 3600.0)


def run_file(
    name: str, folder: Path, *words: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    (folder / name).write_text(file_text(name))
    return subprocess.run(
        [sys.executable, name, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", **environment},
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose trainer tells its arguments."""
    folder = tmp_path / "checkout"
    (folder / "scripts/models").mkdir(parents=True)
    (folder / "train.py").write_text(TELL)
    (folder / "print_args.py").write_text("print('--num-layers 4 --freq [0]*3+[1]*89')\n")
    (folder / "scripts/models/tiny.sh").write_text(
        "LAYERS=4\nMODEL_ARGS=(\n --num-layers $LAYERS\n"
        ' --freq [0]*3+[1]*$((LAYERS + 85))\n "a b" )\n'
    )
    return folder


def write_config(folder: Path, checkout: Path, model_args: list[str]) -> None:
    config = {
        "checkout": str(checkout),
        "script": "train.py",
        "model_args": model_args,
        "before": ["--nodes", "1"],
        "after": ["--hf-checkpoint", "$HF_CKPT", "--lr", "1e-5"],
    }
    (folder / "driver.json").write_text(json.dumps(config))


@pytest.mark.parametrize("kind", ["miles", "slime"])
def test_the_driver_reads_the_checkouts_model_arguments(
    kind: str, tmp_path: Path, checkout: Path
) -> None:
    from attune.trial.frameworks.slime import Slime

    command = ["python3", "print_args.py"]
    if kind == "slime":
        command = Slime()._command_of_model_args("tiny")
    write_config(tmp_path, checkout, command)
    done = run_file("attune_driver.py", tmp_path, HF_CKPT="/models/it's here")
    assert done.returncode == 0, done.stderr
    words, _, name = json.loads(done.stdout)
    assert name == "__main__"
    more = ["a b"] if kind == "slime" else []
    model = ["--num-layers", "4", "--freq", "[0]*3+[1]*89", *more]
    assert words == ["--nodes", "1", *model, "--hf-checkpoint", "/models/it's here", "--lr", "1e-5"]


def test_the_driver_says_what_is_not_set(tmp_path: Path, checkout: Path) -> None:
    write_config(tmp_path, checkout, [])
    done = run_file("attune_driver.py", tmp_path)
    assert done.returncode == 1
    assert "$HF_CKPT is not set" in done.stderr
    write_config(tmp_path, checkout, ["python3", "missing.py"])
    done = run_file("attune_driver.py", tmp_path, HF_CKPT="x")
    assert "cannot read the model arguments" in done.stderr


SCRIPT = """
import sys
def train_valid_test_datasets_provider(counts):
    return "mock"
if __name__ == "__main__":
    print(train_valid_test_datasets_provider.__module__, sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("words", "module"), [((), "__main__"), (("--train-data-path", "x"), "attune_rows_dataset")]
)
def test_the_pretraining_script_is_fed_with_rows(
    words: tuple[str, ...], module: str, tmp_path: Path
) -> None:
    script = tmp_path / "megatron" / "pretrain_gpt.py"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    (tmp_path / "attune_rows_dataset.py").write_text(file_text("attune_rows_dataset.py"))
    done = run_file("attune_pretrain.py", tmp_path, str(script), *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == module
    assert str(list(words)) in done.stdout


def test_a_script_runs_as_if_started_itself(tmp_path: Path, checkout: Path) -> None:
    done = run_file("attune_script.py", tmp_path, str(checkout / "train.py"), "a=1")
    words, path, name = json.loads(done.stdout)
    assert (words, name, path[0]) == (["a=1"], "__main__", str(checkout))
    done = run_file("attune_command.py", tmp_path, "/bin/sh", "-c", "exit 7")
    assert done.returncode == 7


ARGUMENTS = """
import sys
def parse_args():
    if "--bad" in sys.argv:
        raise AssertionError("world size (64) is not divisible by total_model_size (48)")
    if "--odd" in sys.argv:
        sys.exit(2)
    return sys.argv
def validate_args(args, defaults):
    import os
    assert os.environ["WORLD_SIZE"] == "16"
"""


@pytest.mark.parametrize(
    ("flag", "said"),
    [("--good", None), ("--bad", "not divisible by total_model_size"), ("--odd", "malformed")],
)
def test_preflight_asks_the_checkouts_own_check(
    flag: str, said: str | None, tmp_path: Path
) -> None:
    from dataclasses import replace

    from attune.trial.frameworks.preflight import ask
    from attune.trial.setup import Setup

    package = tmp_path / "megatron" / "training"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("")
    (package / "arguments.py").write_text(ARGUMENTS)
    job = replace(h200_job(16), framework="megatron-lm", setup=Setup(checkout=str(tmp_path)))
    reason = ask(job, [flag])
    assert (reason is None) == (said is None), reason
    if said and reason:
        assert said in reason and "megatron-lm's own check refused" in reason


def test_preflight_is_silent_where_it_cannot_run(tmp_path: Path) -> None:
    from dataclasses import replace

    from attune.trial.frameworks.preflight import ask
    from attune.trial.setup import Setup

    job = replace(h200_job(16), framework="slime", setup=Setup(checkout=str(tmp_path)))
    assert ask(job, ["--good"]) is None


def test_digest_of_a_checkpoint(tmp_path: Path) -> None:
    place = tmp_path / "release"
    place.mkdir()
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("release")
    (place / "common.pt").write_bytes(b"common")
    (place / "__0_0.distcp").write_bytes(b"x" * (3 << 20))
    first = checkpoint_digest(tmp_path)
    assert first == checkpoint_digest(tmp_path)
    (place / "__0_0.distcp").write_bytes(b"x" * (3 << 20) + b"y")
    assert checkpoint_digest(tmp_path) != first
    with pytest.raises(AttuneError, match="no distributed checkpoint"):
        checkpoint_digest(tmp_path.parent / "none")
