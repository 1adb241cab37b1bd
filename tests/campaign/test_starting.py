"""The command itself: quick to start, and its errors are one message."""

from __future__ import annotations

import time

import pytest

pytestmark = pytest.mark.campaign


def test_help_answers_within_half_a_second(attune):
    attune("--help").wait()
    started = time.monotonic()
    run = attune("--help")
    assert run.wait() == 0
    assert time.monotonic() - started < 0.5, run.text
    assert "tune" in run.text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("plan", "--model", "glm-4.6", "--gpu", "h200", "--count", "128"), "`glm-4.5`"),
        (("plan", "--model", "glm-4.5", "--gpu", "h20", "--count", "128"), "`h200`"),
        (("plan", "--model", "glm-4.5", "--gpu", "h200", "--count", "100"), "96 or 104"),
        (("tune", "--model", "glm-4.5", "--gpu", "h200", "--count", "128"), "--yes"),
    ],
)
def test_wrong_input_is_one_message_and_exit_code_two(attune, words, told):
    run = attune(*words)
    assert run.wait() == 2, run.text
    assert told in run.text
    assert "Traceback" not in run.text
