from __future__ import annotations

from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "experiments" / "example"


def test_a_resumed_campaign_keeps_its_launcher(attune):
    answer = attune("tune", "--resume", EXAMPLE, "--launcher", "simulated", "--yes")
    assert answer.code == 2
    assert "runs on `local`, which --resume keeps" in answer.err
