"""What starts a trial: each launcher runs a command, and gives logs, exit code and control."""

from __future__ import annotations

from importlib import import_module

from attune.catalog import nearest
from attune.errors import AttuneError
from attune.trial.launchers.choose import choose_launcher
from attune.trial.launchers.launcher import Handle, Launcher, State

__all__ = ["LAUNCHERS", "Handle", "Launcher", "State", "choose_launcher", "load_launcher"]

LAUNCHERS = {
    "local": "attune.trial.launchers.local:LocalLauncher",
    "simulated": "attune.trial.launchers.simulated:SimulatedLauncher",
}
"""Class of each launcher by name."""


def load_launcher(name: str) -> Launcher:
    """The launcher of that name.

    Raises:
        AttuneError: no such launcher.
    """
    if name not in LAUNCHERS:
        near = nearest(name, list(LAUNCHERS))
        hint = f"; did you mean `{near}`?" if near else "."
        raise AttuneError(f"no launcher `{name}`{hint} There are: {', '.join(LAUNCHERS)}")
    module, _, kind = LAUNCHERS[name].partition(":")
    launcher: Launcher = getattr(import_module(module), kind)()
    return launcher
