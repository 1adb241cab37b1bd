"""attune finds the Megatron layout that trains a large model fastest on your cluster."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

_DOORS = {
    "Target": "target",
    "add_model": "catalogue",
    "build_rows": "rows",
    "check_components": "verify",
    "check_rows": "rows",
    "compare_configurations": "verify",
    "convert_rows": "rows",
    "explain": "explain",
    "export_recipe": "export",
    "find_experiments": "report",
    "find_launcher": "trial",
    "find_target": "target",
    "judge_table": "judge",
    "forget_calibrations": "calibration",
    "list_gpus": "catalogue",
    "list_models": "catalogue",
    "plan": "plan",
    "probe_layers": "probe_layers",
    "probe_memory": "probe_memory",
    "read_layout": "explain",
    "run_trial": "trial",
    "show_calibrations": "calibration",
    "show_model": "catalogue",
    "show_row": "rows",
    "tune": "tune",
    "verify_against": "verify",
    "verify_recipe": "recipe",
    "write_report": "report",
}
"""Name of each verb and the module of `attune.verbs` that has it."""

__all__ = [*_DOORS, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _DOORS:
        raise AttributeError(f"module `attune` has no `{name}`; it has {', '.join(_DOORS)}")
    from importlib import import_module

    return getattr(import_module(f"attune.verbs.{_DOORS[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
