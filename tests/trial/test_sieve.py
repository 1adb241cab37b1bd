"""The sieve lets every line through that a pattern or a reader knows, and little else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from test_failures import LINES

from attune.trial.failures import CLASSES
from attune.trial.frameworks import load_framework
from attune.trial.logs import RunLog
from attune.trial.sieve import KNOWN, Sieve

NOISE = [
    "[rank{r}]: module.py:{n}: loading shard {n} into bucket {r} with 4096 elements",
    "(MegatronTrainRayActor pid={n}, ip=10.0.0.{r}) gathered {n} tokens for expert {r}",
    "INFO:megatron:building param {n} shape torch.Size([5120, {n}]) dtype bfloat16",
]


def noise(lines: int, seed: int = 1) -> list[str]:
    draw = random.Random(seed)
    return [
        draw.choice(NOISE).format(r=draw.randrange(300), n=draw.randrange(10**6))
        for _ in range(lines)
    ]


def kept(text: str) -> list[str]:
    return [line.decode() for _, line in Sieve(KNOWN).lines(text.encode())]


@pytest.mark.parametrize("line", [line for name, line in LINES if CLASSES[name].outcome])
@pytest.mark.parametrize("shift", range(4))
def test_a_line_that_says_something_passes(line: str, shift: int) -> None:
    text = "x" * shift + "\n" + line + "\nordinary words\n"
    assert kept(text) == [line]


def test_places_are_those_of_the_lines() -> None:
    text = "\n".join(["", "abc", "an Error here", *noise(50), "CUDA OUT OF MEMORY", ""]).encode()
    found = list(Sieve(KNOWN).lines(text))
    assert [line for _, line in found] == [b"an Error here", b"CUDA OUT OF MEMORY"]
    assert all(text[place : place + len(line)] == line for place, line in found)


def test_an_error_in_much_noise_is_found_with_its_time(tmp_path: Path) -> None:
    lines = noise(20_000)
    lines[9_000] = "[2026-01-01 00:00:07] ready"
    lines[9_001:9_002] = ["[rank3]: torch.OutOfMemoryError: CUDA out of memory."]
    (tmp_path / "node-0.log").write_text("\n".join(lines) + "\n")
    log = RunLog(load_framework("megatron-lm").reader())
    list(log.look([tmp_path / "node-0.log"]))
    (found,) = log.findings
    assert (found.log_class, found.rank) == ("GPU_OOM", 3)
    assert found.time is not None and found.time % 60 == 7
