"""What trains: each framework turns a job into a command, and reads the log that it prints."""

from __future__ import annotations

from importlib import import_module

from attune.catalog import nearest
from attune.errors import AttuneError
from attune.trial.frameworks.framework import Command, Framework

__all__ = ["FRAMEWORKS", "Command", "Framework", "load_framework"]

FRAMEWORKS = {
    "megatron-core": "attune.trial.frameworks.megatron_core:MegatronCore",
    "megatron-lm": "attune.trial.frameworks.megatron_lm:MegatronLM",
    "megatron-bridge": "attune.trial.frameworks.megatron_bridge:MegatronBridge",
    "miles": "attune.trial.frameworks.miles:Miles",
    "slime": "attune.trial.frameworks.slime:Slime",
    "command": "attune.trial.frameworks.template:CommandTemplate",
}
"""Class of each framework by name."""


def load_framework(name: str) -> Framework:
    """The framework of that name.

    Raises:
        AttuneError: no such framework.
    """
    if name not in FRAMEWORKS:
        near = nearest(name, list(FRAMEWORKS))
        hint = f"; did you mean `{near}`?" if near else "."
        raise AttuneError(f"no framework `{name}`{hint} There are: {', '.join(FRAMEWORKS)}")
    module, _, kind = FRAMEWORKS[name].partition(":")
    framework: Framework = getattr(import_module(module), kind)()
    return framework
