"""`attune diagnose` as typed."""

from __future__ import annotations

import json


def test_verdict_evidence_and_exit_code(attune, tmp_path):
    (tmp_path / "rank-3.log").write_text("RuntimeError: CUDA out of memory.\n")
    answer = attune("diagnose", tmp_path)
    assert answer.code == 1
    assert answer.out.startswith("out_of_memory (GPU_OOM), no step\nwhy: RuntimeError: CUDA out")
    assert "where: rank 3" in answer.out
    assert "advice: " in answer.out
    data = json.loads(attune("diagnose", tmp_path, "--json").out)
    names = {"class", "outcome", "rank", "phase", "step", "evidence", "advice"}
    assert names <= set(data)
    assert (data["class"], data["outcome"], data["rank"]) == ("GPU_OOM", "out_of_memory", 3)


def test_a_missing_log_is_wrong_input(attune, tmp_path):
    answer = attune("diagnose", tmp_path / "none")
    assert answer.code == 2
    assert "no log at" in answer.err
