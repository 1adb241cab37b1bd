"""Training on a file of rows gives the same losses under every layout."""

from __future__ import annotations

import json

import pytest

from attune.cli.app import run

pytestmark = pytest.mark.training


def test_layouts_agree_on_a_file_of_rows(rows_file, tmp_path, monkeypatch):
    pytest.importorskip("megatron.core", reason="the train extra is not installed")
    path = rows_file(row_count=40)
    monkeypatch.setenv("ATTUNE_HOME", str(tmp_path))
    curves = []
    for layout in ("tp=2 ep=2", "pp=2"):
        place = tmp_path / layout.replace(" ", "")
        asked = f"--model tiny-moe --gpu cpu --count 2 --rows {path} --global-batch 8 --steps 5"
        code = run(["trial", *asked.split(), "--layout", layout, "--yes", "-o", str(place)])
        assert code == 0, (place / "result.json").read_text()
        lines = (place / "steps.jsonl").read_text().splitlines()
        curves.append([json.loads(line)["loss"] for line in lines])
    assert curves[0] == pytest.approx(curves[1], rel=1e-5)
    assert curves[0][-1] < curves[0][0]
