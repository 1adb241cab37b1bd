"""The rollout function against stand-ins of the data buffer and samples of miles and slime."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from attune.trial.frameworks.files import file_text

ARGUMENTS = SimpleNamespace(rollout_batch_size=4, n_samples_per_prompt=1)


@dataclass
class Sample:
    """The fields that both trainers' samples have (miles 0.1.0, slime 0.3.0)."""

    index: int | None = None
    prompt: Any = ""
    tokens: list[int] = field(default_factory=list)
    response_length: int = 0
    reward: Any = None
    loss_mask: list[int] | None = None
    metadata: dict = field(default_factory=dict)


class DataBuffer:
    """Reads parquet as both trainers do: Python rows, copied for every step, in file order."""

    def __init__(self, path: Path) -> None:
        rows = pq.read_table(path).to_pylist()
        self.samples = [
            Sample(index=i, prompt=row["messages"], metadata=row["metadata"] or {})
            for i, row in enumerate(rows)
        ]
        self.place = 0

    def get_samples(self, count: int) -> list[list[Sample]]:
        taken = self.samples[self.place : self.place + count]
        self.place += count
        return [[copy.deepcopy(sample)] for sample in taken]


def predicted(sample: Sample) -> list[int]:
    """Tokens that carry a loss, as the trainers compute them from a sample."""
    total, response = len(sample.tokens), sample.response_length
    assert len(sample.loss_mask) == response, "the trainers assert it"
    assert 0 < response < total, "the logits from which they slice start before the response"
    assert sample.reward is not None
    targets = sample.tokens[total - response :]
    return [token for token, on in zip(targets, sample.loss_mask, strict=True) if on]


@pytest.fixture
def rollout() -> Any:
    """The function as a trainer loads it: from its text, with nothing of attune around."""
    names: dict[str, Any] = {"__name__": "pretokenized_sft_rollout"}
    exec(compile(file_text("pretokenized_sft_rollout.py"), "rollout.py", "exec"), names)
    return names["generate_rollout"]


def test_samples_are_the_rows(rollout, rows_file):
    path = rows_file()
    rows = [row["metadata"] for row in pq.read_table(path).to_pylist()]
    buffer = DataBuffer(path)
    for step in range(2):
        groups = rollout(ARGUMENTS, step, buffer, evaluation=False)
        for (sample,), row in zip(groups, rows[4 * step : 4 * step + 4], strict=True):
            assert sample.tokens == row["input_ids"]
            wanted = [t for t, on in zip(row["input_ids"], row["loss_mask"], strict=True) if on]
            assert predicted(sample) == wanted
            assert "input_ids" not in sample.metadata


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({}, "no row in the sample"),
        ({"input_ids": [1, 2], "loss_mask": [0, 0]}, "no supervised token"),
        ({"input_ids": [1, 2], "loss_mask": [1, 0]}, "supervises its first token"),
        ({"input_ids": [1, 2], "loss_mask": [0]}, "2 tokens and a mask of 1"),
    ],
)
def test_what_is_no_row_is_refused(rollout, metadata, message):
    buffer = SimpleNamespace(get_samples=lambda count: [[Sample(metadata=metadata)]])
    with pytest.raises(ValueError, match=message):
        rollout(ARGUMENTS, 0, buffer)


def test_evaluation_and_several_samples_are_refused(rollout):
    buffer = SimpleNamespace(get_samples=lambda count: [[Sample(), Sample()]])
    with pytest.raises(ValueError, match="no evaluation"):
        rollout(ARGUMENTS, 0, buffer, evaluation=True)
    with pytest.raises(ValueError, match="n-samples-per-prompt"):
        rollout(ARGUMENTS, 0, buffer)
