"""Runs the command line as a user without a terminal would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from attune.cli.app import run


@dataclass(frozen=True)
class Answer:
    """What a command gave."""

    code: int
    out: str
    err: str


Attune = Callable[..., Answer]


@pytest.fixture
def attune(capsys, monkeypatch, tmp_path) -> Attune:
    """`attune(...)` with everything that it writes under a folder of its own."""
    monkeypatch.setenv("ATTUNE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")

    def invoke(*arguments: object) -> Answer:
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return invoke
