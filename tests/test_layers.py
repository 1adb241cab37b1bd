"""The layers contract of pyproject.toml, so that a wrong import fails the tests too."""

from __future__ import annotations

import tomllib
from pathlib import Path

from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

ROOT = Path(__file__).resolve().parent.parent


def test_every_import_goes_down_the_floors(monkeypatch):
    monkeypatch.chdir(ROOT)
    status = lint_imports(config_filenames=("pyproject.toml",), no_cache=True, no_logo=True)
    assert status == EXIT_STATUS_SUCCESS


def test_every_room_stands_on_a_floor():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = config["tool"]["importlinter"]["contracts"][0]["layers"]
    on_a_floor = {room.strip() for layer in layers for room in layer.split("|")}
    rooms = {f"attune.{path.parent.name}" for path in ROOT.glob("attune/*/__init__.py")}
    modules = {f"attune.{path.stem}" for path in ROOT.glob("attune/*.py")} - {"attune.__init__"}
    assert rooms | modules == on_a_floor
