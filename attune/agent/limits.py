"""What the user allows an agent; the agent itself cannot change it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from attune.errors import AttuneError

FREE = "simulated"
"""The launcher that spends nothing."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The fixed launcher and the budget of everything that an agent ever starts in a folder."""

    launcher: str = FREE
    launcher_options: Mapping[str, str] = field(default_factory=dict)
    max_gpu_hours: float | None = None
    """Of all trials and campaigns together, on a virtual cluster by its own clock."""
    virtual: Literal["near", "far", "adversarial"] = "near"
    worker_options: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Returns where the limits hold an agent.

        Raises:
            AttuneError: no such launcher, one that is not fixed, or no budget for real hardware.
        """
        from attune.trial.launchers import load_launcher

        if self.launcher == "auto":
            raise AttuneError(
                "the agent's launcher is fixed by you: give --launcher NAME, not `auto`"
            )
        load_launcher(self.launcher, dict(self.launcher_options))
        if self.max_gpu_hours is None and self.launcher != FREE:
            raise AttuneError(
                f"--launcher {self.launcher} spends GPU-hours; say how many with --max-gpu-hours"
            )
        if self.max_gpu_hours is not None and not 0 < self.max_gpu_hours < float("inf"):
            raise AttuneError(f"--max-gpu-hours {self.max_gpu_hours:g} must be over 0")
