"""`attune doctor` as typed."""

from __future__ import annotations

import json


def test_says_what_works_and_what_to_do(attune, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    answer = attune("doctor")
    assert answer.code == 0
    assert "yes python" in answer.out
    found = {part["name"]: part for part in json.loads(attune("doctor", "--json").out)}
    assert found["torch"]["works"] and found["launcher simulated"]["works"]
    assert found["launcher slurm"]["found"] == "no sbatch"
    assert not found["launcher ray"]["works"]
    assert not found["GPUs"]["works"]
    assert all(part["advice"] for part in found.values() if not part["works"])
