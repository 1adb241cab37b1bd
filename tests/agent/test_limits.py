"""What holds an agent: a fixed launcher and a budget."""

from __future__ import annotations

import pytest

from attune.agent.limits import Limits
from attune.errors import AttuneError


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Limits(launcher="auto"), "fixed by you"),
        (Limits(launcher="local"), "--max-gpu-hours"),
        (Limits(max_gpu_hours=0.0), "must be over 0"),
        (Limits(max_gpu_hours=float("nan")), "must be over 0"),
        (Limits(launcher="nothing"), "nothing"),
    ],
)
def test_limits_that_hold_nobody_are_refused(limits, words):
    with pytest.raises(AttuneError, match=words):
        limits.check()


def test_a_virtual_cluster_needs_no_budget():
    Limits().check()
    Limits(launcher="local", max_gpu_hours=1.0).check()
