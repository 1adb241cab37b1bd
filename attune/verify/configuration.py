"""Whether two runs were asked to train the same thing, layout apart."""

from __future__ import annotations

from typing import Any

from attune.layout import Layout
from attune.recipe.schema import Check
from attune.trial.job import Job

DEGREES = ("tp", "pp", "vpp", "cp", "ep", "etp")
MEMORY_KNOBS = (
    "recompute",
    "recompute_modules",
    "recompute_method",
    "recompute_layers",
    "optimizer_offload",
    "rows_per_microbatch",
)
_SAME = ("model", "workload", "framework", "worker_options")
"""Fields of a job that both arms must share; the layout may differ, and where it runs."""


def check_configuration(candidate: Job, reference: Job) -> Check:
    """Model, rows, batch, precision, schedule and framework must be equal in both arms.

    Both arms are built by one worker from one job each, so equal fields mean equal arguments.
    """
    differing = [
        text
        for name in _SAME
        for text in _differences(name, getattr(candidate, name), getattr(reference, name))
    ]
    shared = f"same {', '.join(_SAME).replace('_', ' ')}"
    detail = "; ".join(differing) or f"{shared}; {_layouts(candidate.layout, reference.layout)}"
    return Check(name="configuration", status="failed" if differing else "passed", detail=detail)


def _differences(name: str, ours: Any, theirs: Any) -> list[str]:
    """`field: candidate against reference` for each field that differs."""
    ours, theirs = _plain(ours), _plain(theirs)
    if name == "workload" and ours["rows_sha256"] and ours["rows_sha256"] == theirs["rows_sha256"]:
        # The digest names the rows, wherever the file lies.
        ours, theirs = ours | {"rows": None}, theirs | {"rows": None}
    if isinstance(ours, dict) and isinstance(theirs, dict):
        keys = sorted(ours.keys() | theirs.keys())
        return [t for k in keys for t in _differences(f"{name}.{k}", ours.get(k), theirs.get(k))]
    return [] if ours == theirs else [f"{name}: {ours} against {theirs} in the reference arm"]


def _plain(value: Any) -> Any:
    return value.model_dump() if hasattr(value, "model_dump") else value


def check_reference_differs(candidate: Layout, reference: Layout) -> Check:
    """Whether the reference puts at least one degree and one memory knob to the test.

    `verified` does not rest on it, but a recipe says so where it does not.
    """
    differs = _differing(candidate, reference, DEGREES) and _differing(
        candidate, reference, MEMORY_KNOBS
    )
    return Check(
        name="reference_differs",
        status="passed" if differs else "not run",
        detail=_layouts(candidate, reference)
        + ("" if differs else ", so the comparison says nothing of what both share"),
        needed=False,
    )


def _differing(candidate: Layout, reference: Layout, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if getattr(candidate, name) != getattr(reference, name)]


def _layouts(candidate: Layout, reference: Layout) -> str:
    """Which degrees and memory knobs the comparison puts to the test."""
    degrees = _differing(candidate, reference, DEGREES)
    knobs = _differing(candidate, reference, MEMORY_KNOBS)
    return (
        f"the layouts differ in {', '.join(degrees) or 'no degree'} "
        f"and in {', '.join(knobs).replace('_', ' ') or 'no memory knob'}"
    )
