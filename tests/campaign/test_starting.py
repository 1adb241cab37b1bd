"""The command itself: its errors are one message."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.campaign


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("plan", "--model", "glm-4.6", "--gpu", "h200", "--count", "128"), "`glm-4.5`"),
        (("plan", "--model", "glm-4.5", "--gpu", "h20", "--count", "128"), "`h200`"),
        (("plan", "--model", "glm-4.5", "--gpu", "h200", "--count", "100"), "96 or 104"),
        (
            ("tune", "--model", "tiny-moe", "--gpu", "cpu", "--count", "4", "--launcher", "local"),
            "--yes",
        ),
    ],
)
def test_wrong_input_is_one_message_and_exit_code_two(attune, words, told):
    run = attune(*words)
    assert run.wait() == 2, run.text
    assert told in run.text
    assert "Traceback" not in run.text
