"""Checks that a recipe claims no more than it shows."""

from __future__ import annotations

from collections.abc import Iterator

from attune.recipe.problem import Problem
from attune.recipe.schema import Convergence, Correctness, Recipe
from attune.recipe.thresholds import PIPELINE

_PROVENANCES = {
    "predicted": ("predicted",),
    "measured": ("measured", "published"),
    "verified": ("verified", "published"),
    "reference": ("published",),
}
"""Provenances under `attune:` that go with each status."""


def check_claims(recipe: Recipe) -> Iterator[Problem]:
    """Status, dates, provenance and correctness agree."""
    status, result = recipe.status, recipe.result
    if status in ("measured", "verified") and (result is None or result.measured is None):
        yield Problem("result.measured", None, f"a {status} recipe has the day of its run")
    if status == "predicted" and result is not None and result.measured is not None:
        yield Problem("status", status, f"the result says it was measured on {result.measured}")
    if recipe.attune is not None and recipe.attune.provenance not in _PROVENANCES[status]:
        wanted = f"status `{status}` goes with {' or '.join(_PROVENANCES[status])}"
        yield Problem("attune.provenance", recipe.attune.provenance, wanted)
    if status == "verified":
        yield from _check_verified(recipe.correctness)
    if recipe.correctness is not None:
        yield from _check_correctness(recipe.correctness)


def _check_verified(correctness: Correctness | None) -> Iterator[Problem]:
    if correctness is None:
        yield Problem("correctness", None, "a verified recipe shows how it was verified")
        return
    if correctness.result != "pass":
        wanted = "a verified recipe has passed its checks"
        yield Problem("correctness.result", correctness.result, wanted)
    if correctness.convergence is None:
        wanted = "a verified recipe has compared its loss curve"
        yield Problem("correctness.convergence", None, wanted)


def _check_correctness(correctness: Correctness) -> Iterator[Problem]:
    """A pass means that every part passed."""
    convergence = correctness.convergence
    if convergence is not None and convergence.result == "pass":
        yield from _check_convergence(convergence)
    if correctness.result != "pass":
        return
    parts = [("configuration", correctness.configuration)]
    parts += [("convergence.result", convergence.result)] if convergence else []
    tests = enumerate(correctness.component_tests)
    parts += [(f"component_tests.{i}.result", test.result) for i, test in tests]
    for name, verdict in parts:
        if verdict != "pass":
            yield Problem(f"correctness.{name}", verdict, "correctness.result says pass")
    for index, check in enumerate(correctness.checks):
        if check.status == "failed" or (check.needed and check.status != "passed"):
            wanted = f"correctness.result says pass, and {check.name} did not"
            yield Problem(f"correctness.checks.{index}.status", check.status, wanted)


def _check_convergence(convergence: Convergence) -> Iterator[Problem]:
    """Figures of a pass lie within the thresholds."""
    points = convergence.steps - int(convergence.steps * PIPELINE["skip_first_percent_loss"])
    least, most = PIPELINE["correlation_threshold"], PIPELINE["final_loss_tolerance"]
    worst = PIPELINE["max_outlier_ratio"] * points
    field = "correctness.convergence"
    r, failures = convergence.correlation, convergence.pointwise_failures
    if r is not None and not least <= r <= 1.0 + 1e-9:
        yield Problem(f"{field}.correlation", r, f"a pass has {least} to 1")
    final = convergence.final_loss_difference
    if final is not None and final > most:
        yield Problem(f"{field}.final_loss_difference", final, f"a pass has at most {most}")
    if failures is not None and not 0 <= failures <= worst:
        wanted = f"a pass has at most {worst:g} of {points} points"
        yield Problem(f"{field}.pointwise_failures", failures, wanted)
