"""When two layouts of one model count as the same training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

STEPS = 20
WORKLOAD = (("global_batch", 8),)
"""Half of the tiny models' own batch: the bounds need many steps, not many rows."""
FIRST, LAST = 1e-5, 1e-4
"""Bounds on the relative loss difference at the first step and the last, float32."""
NORM = 1e-3
"""Bound on the relative difference of gradient norms, at every step."""


def assert_same(train: Callable[..., Any], model: str, layout: str, processes: int) -> None:
    """The layout trains as one process does: losses and gradient norms of every step."""
    reference = train(model, "tp=1", workload=WORKLOAD)
    candidate = train(model, layout, processes, workload=WORKLOAD)
    assert candidate.code == 0, candidate.text
    assert len(candidate.losses) == len(reference.losses) == STEPS
    for step, (loss, expected) in enumerate(zip(candidate.losses, reference.losses)):
        bound = FIRST + (LAST - FIRST) * step / (STEPS - 1)
        assert loss == pytest.approx(expected, rel=bound), (step, candidate.losses)
    assert candidate.norms == pytest.approx(reference.norms, rel=NORM)
