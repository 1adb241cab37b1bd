from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from attune.report.plain import plain
from attune.report.words import brief, duration, gib, number, percent, seconds, size


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (seconds(0.41234), "0.412"),
        (seconds(4.123), "4.12"),
        (seconds(41.23), "41.2"),
        (seconds(1234.5), "1,234"),
        (seconds(None), "-"),
        (gib(121.46), "121.5"),
        (gib(0.1234), "0.123"),
        (number(32_854_016_000), "32,854,016,000"),
        (percent(0.4204), "42.0 %"),
        (size(352_797_814_784), "352.8B"),
        (size(12), "12"),
        (duration(3905), "1 h 05 min"),
        (duration(200), "3 min 20 s"),
        (duration(12.4), "12 s"),
        (brief("Out of memory. Tried."), "Out of memory. Tried."),
        (brief("Out of memory. Tried to allocate", 20), "Out of memory. ..."),
        (brief("Tried to allocate", 9), "Tried to ..."),
    ],
)
def test_numbers_read_well(said, words):
    assert said == words


def test_plain_data_is_strict_json():
    @dataclass(frozen=True)
    class Found:
        place: Path
        values: tuple[float, ...]
        array: np.ndarray
        missing: float

    found = Found(Path("a/b"), (1.0, 2.0), np.array([[1, 2]]), float("inf"))
    text = json.dumps(plain(found), allow_nan=False)
    assert json.loads(text) == {
        "place": "a/b",
        "values": [1.0, 2.0],
        "array": [[1, 2]],
        "missing": None,
    }
