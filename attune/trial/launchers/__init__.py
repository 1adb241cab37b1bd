"""What starts a trial: each launcher runs a command, and gives logs, exit code and control."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from attune.catalog import nearest
from attune.errors import AttuneError
from attune.trial.launchers.choose import choose_launcher
from attune.trial.launchers.launcher import Handle, Launcher, State

__all__ = ["LAUNCHERS", "Handle", "Launcher", "State", "choose_launcher", "load_launcher"]

LAUNCHERS = {
    "local": "attune.trial.launchers.local:LocalLauncher",
    "slurm": "attune.trial.launchers.slurm:SlurmLauncher",
    "ray": "attune.trial.launchers.ray:RayLauncher",
    "kubernetes": "attune.trial.launchers.kubernetes:KubernetesLauncher",
    "simulated": "attune.trial.launchers.simulated:SimulatedLauncher",
}
"""Class of each launcher by name."""


def load_launcher(name: str, options: Mapping[str, object] | None = None) -> Launcher:
    """The launcher of that name.

    Args:
        name: one of `LAUNCHERS`.
        options: what the site tells it: `partition`, `account`, ...

    Raises:
        AttuneError: no such launcher, or an option that it has not.
    """
    if name not in LAUNCHERS:
        near = nearest(name, list(LAUNCHERS))
        hint = f"; did you mean `{near}`?" if near else "."
        raise AttuneError(f"no launcher `{name}`{hint} There are: {', '.join(LAUNCHERS)}")
    module, _, kind = LAUNCHERS[name].partition(":")
    make = getattr(import_module(module), kind)
    if name in ("local", "simulated"):
        if options:
            raise AttuneError(f"launcher {name} has no options, but got {', '.join(options)}")
        launcher: Launcher = make()
    else:
        launcher = make.of(options or {})
    return launcher
