"""Fixtures of the tests of trials."""

from __future__ import annotations

import pytest
from trial_jobs import FakePerformance

from attune.trial.frameworks import FRAMEWORKS


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    """The framework `fake` runs the fake trainer."""
    monkeypatch.setitem(FRAMEWORKS, "fake", "trial_jobs:FakeFramework")


@pytest.fixture
def virtual(monkeypatch: pytest.MonkeyPatch) -> FakePerformance:
    """A performance that every simulated run obeys."""
    performance = FakePerformance()
    monkeypatch.setattr("attune.trial.stand_in.program.performance_of", lambda job: performance)
    return performance
