"""The wheel, built from the source distribution and used from a folder far from the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.wheel

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"


def run(*command: str | Path, folder: Path) -> str:
    """Standard output of a command that must succeed, with no trace of the checkout around it."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "ATTUNE_HOME")}
    environment["PIP_CONSTRAINT"] = str(CONSTRAINTS)
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs of a new environment that holds the wheel and what it requires, no more."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--outdir", folder / "dist", ROOT, folder=folder)
    (wheel,) = (folder / "dist").glob("*.whl")
    run(sys.executable, "-m", "venv", folder / "environment", folder=folder)
    programs = folder / "environment" / "bin"
    run(programs / "python", "-m", "pip", "install", "-qq", wheel, folder=folder)
    return programs


def test_attune_plans_from_another_folder(installed, tmp_path):
    asked = ("--model", "glm-4.5", "--gpu", "h200", "--count", "128")
    plan = json.loads(run(installed / "attune", "plan", *asked, "--json", folder=tmp_path))
    assert plan
    assert "tp=" in run(installed / "attune", "plan", *asked, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


LOOK = """
import json
from pathlib import Path
import attune
from attune.catalog import gpu_names, model_names, shipped

folders = [shipped(name) for name in ("search_spaces", "recipes")]
home = Path(attune.__file__).parent
print(json.dumps({
    "inside": all(folder.is_relative_to(home) for folder in folders),
    "files": [path.name for folder in folders for path in folder.rglob("*.yaml")],
    "models": model_names(),
    "gpus": gpu_names(),
}))
"""


def test_the_wheel_carries_its_data(installed, tmp_path):
    found = json.loads(run(installed / "python", "-c", LOOK, folder=tmp_path))
    assert found["inside"]
    for folder in ("search_spaces", "recipes"):
        names = {path.name for path in (ROOT / folder).rglob("*.yaml")}
        assert names
        assert names <= set(found["files"])
    for folder in ("models", "gpus"):
        names = {path.stem for path in (ROOT / "attune/catalog" / folder).glob("*.yaml")}
        assert names == set(found[folder])


def test_planning_needs_neither_torch_nor_megatron(installed, tmp_path):
    names = run(installed / "python", "-m", "pip", "list", "--format=freeze", folder=tmp_path)
    assert "torch" not in names
    assert "megatron" not in names
