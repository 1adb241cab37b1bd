"""`attune tune --dry-run`: the bill before anything is spent."""

from __future__ import annotations

DRY = (
    "tune",
    "--model",
    "qwen3-8b",
    "--gpu",
    "h200",
    "--count",
    "16",
    "--dry-run",
    "--trials",
    "4",
)


def test_runs_nodes_hours_dollars_and_the_command(attune, tmp_path):
    answer = attune(*DRY, "--launcher", "slurm", "--usd", "79.12")
    assert answer.code == 0, answer.err
    words = " ".join(answer.out.split())
    assert "a reference, 4 trials at most and a confirmation, each on 2 nodes of 8 GPUs" in words
    assert "by launcher slurm" in words
    assert "GPU-hours, $79 (predicted; queues come on top)" in words
    assert "hard limit: 10 GPU-hours" in words
    assert "torch.distributed.run" in words
    assert not (tmp_path / "home").exists()


def test_a_price_is_needed_for_dollars(attune):
    answer = attune(
        *("tune", "--model", "tiny-dense", "--gpu", "cpu", "--count", "2", "--dry-run"),
        *("--usd", "5", "--launcher", "local"),
    )
    assert answer.code == 2
    assert "--usd 5 needs a price, and CPU has none" in answer.err
